// Tree-of-hosts allreduce. Every host reduces to its first rank, these leaders allreduce by recursive doubling, and
// each broadcasts the result on its host. Any number of ranks on any host. Only leaders communicate between hosts, in
// few rounds. For small buffers when hosts are not equal. With L ranks on each of H hosts, h the largest power of two
// at most H:
//
//   rounds ceil(log2 L) + floor(log2 L) + log2 h, and 2 more if h < H
//   elements n ceil(log2 L) + n log2 h, and n more if h < H (a leader)     scratch n
//   crossing n times h log2 h + 2(H-h) in all
//
// TorchMPI's tree communicators, 2017; Karonis et al., "Exploiting hierarchy in parallel computer networks", IPDPS
// 2000.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank);
  const Shape inside{.rank = hosts.index_of(s.rank), .size = hosts.size_of(host), .count = s.count};
  const Shape between{.rank = host, .size = hosts.count(), .count = s.count};
  const std::span<const int> members = hosts[host];
  if (between.size > 1 && inside.size == 1)
    return pieces::allreduce_recursive_doubling(between).on(Members::across(hosts, 0));
  Schedule whole = pieces::reduce_binomial(inside).on(members);
  if (between.size > 1) whole = std::move(whole).partial();
  if (between.size > 1 && inside.rank == 0)
    whole.then(pieces::allreduce_recursive_doubling(between).on(Members::across(hosts, 0)).in_place());
  whole.then(pieces::broadcast_binomial(inside).on(members));
  return whole;
}

/// Messages that host `host` of `hosts` sends in the recursive doubling.
int sends(int host, int hosts) {
  const int k = power_of_two_below(hosts);
  if (host >= k) return 1;
  return log2_floor(k) + (host + k < hosts ? 1 : 0);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int most = hosts.largest(), k = power_of_two_below(hosts.count());
  int messages = 1;  // for a leaf
  for (int host = 0; host < hosts.count(); ++host)
    messages = std::max(messages, log2_ceil(hosts.size_of(host)) + sends(host, hosts.count()));
  const int rounds = log2_ceil(most) + log2_floor(most) + log2_floor(k) + (k < hosts.count() ? 2 : 0);
  return {rounds, times(messages, s.count)};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    what.total += times(sends(host, hosts.count()), s.count);
    what.most = std::max(what.most, times(sends(host, hosts.count()), s.count));
  }
  return what;
}

}  // namespace

extern const Algorithm allreduce_tree_of_hosts{
    .kind = Kind::allreduce,
    .name = "tree_of_hosts",
    .idea = "reduce to a leader on each host, double among the leaders, broadcast: any hosts, for small buffers",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
};

}  // namespace tutti
