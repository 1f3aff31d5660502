#!/bin/sh
# netns.sh N COMMAND...: runs COMMAND in N network namespaces at once ("hosts"), %i standing for the
# host's number, and returns the first exit code that is not 0. Each host has
#   common0  10.88.0.(i+1)/24   joined by a bridge in a namespace of its own
#   alone0   192.168.88.(i+1)/24 and 172.31.0.1/16 (the same on every host), joined to nothing
# Names are unique, nothing is added to the machine's own network, and all of it goes when this ends.
set -u
count=$1
shift
name=tutti$$
cleanup() {
  trap - EXIT INT TERM
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  i=0
  while [ "$i" -lt "$count" ]; do
    ip netns del "$name-$i" 2>/dev/null
    i=$((i + 1))
  done
  ip netns del "$name-sw" 2>/dev/null
}
pids=
trap cleanup EXIT
trap 'cleanup; exit 130' INT TERM
ip netns add "$name-sw" || exit 99
ip -n "$name-sw" link add bridge0 type bridge || exit 99
ip -n "$name-sw" link set bridge0 up || exit 99
i=0
while [ "$i" -lt "$count" ]; do
  ip netns add "$name-$i" || exit 99
  host="ip -n $name-$i"
  $host link set lo up
  $host link add alone0 type dummy 2>/dev/null || $host link add alone0 type veth peer name alone1 || exit 99
  $host addr add "192.168.88.$((i + 1))/24" dev alone0
  $host addr add 172.31.0.1/16 dev alone0
  $host link set alone0 up
  $host link add common0 type veth peer name "port$i" netns "$name-sw" || exit 99
  $host addr add "10.88.0.$((i + 1))/24" dev common0
  $host link set common0 up
  ip -n "$name-sw" link set "port$i" master bridge0 up || exit 99
  i=$((i + 1))
done
i=0
while [ "$i" -lt "$count" ]; do
  ip netns exec "$name-$i" sh -c 'i=$1; shift; for a; do shift; [ "$a" = %i ] && a=$i; set -- "$@" "$a"; done; exec "$@"' sh "$i" "$@" &
  pids="$pids $!"
  i=$((i + 1))
done
result=0
for pid in $pids; do
  wait "$pid"
  code=$?
  [ "$result" -eq 0 ] && result=$code
done
pids=
exit "$result"
