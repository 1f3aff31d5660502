// Cartesian allreduce, for hosts with equally many ranks, which form a grid: first an allreduce among the ranks of
// every host, then one among the ranks with the same local index on all hosts. Both use recursive doubling, which
// gives the fewest rounds, of which log2 H are between hosts; but every rank sends the whole buffer to other hosts.
// For small buffers. With L ranks on each of H hosts, h and l the largest powers of two at most H and L:
//
//   rounds log2 l, and 2 more if l < L, and log2 h, and 2 more if h < H     elements n log2 l + n log2 h, and n more
//   for each of the two that is no power     scratch n     crossing L n times h log2 h + 2(H-h) in all
//
// TorchMPI's cartesian communicators, 2017; for each axis see allreduce_recursive_doubling.cpp.
#include <utility>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank);
  const Shape row{.rank = index, .size = hosts.size_of(host), .count = s.count};
  const Shape column{.rank = host, .size = hosts.count(), .count = s.count};
  Schedule inside = pieces::allreduce_recursive_doubling(row).on(hosts[host]);
  if (column.size == 1) return inside;
  Schedule across = pieces::allreduce_recursive_doubling(column).on(Members::across(hosts, index));
  if (row.size == 1) return across;
  Schedule whole = std::move(inside).partial();
  whole.then(std::move(across).in_place());
  return whole;
}

bool has_extra(int n) { return power_of_two_below(n) < n; }

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Cost sum;
  for (const int n : {hosts.smallest(), hosts.count()}) {
    sum.rounds += log2_floor(n) + (has_extra(n) ? 2 : 0);
    sum.elements += times(log2_floor(n) + (has_extra(n) ? 1 : 0), s.count);
  }
  return sum;
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const std::size_t n = times(hosts.smallest(), s.count);
  const int k = power_of_two_below(hosts.count()), extra = hosts.count() - k;
  return {times(k * log2_floor(k) + 2 * extra, n), times(log2_floor(k) + (extra > 0 ? 1 : 0), n)};
}

}  // namespace

extern const Algorithm allreduce_cartesian{
    .kind = Kind::allreduce,
    .name = "cartesian",
    .idea = "doubling among the ranks of a host, then across hosts: few rounds between hosts, for small buffers",
    .plan = plan,
    .cost = cost,
    .fits = [](const Shape& s) { return hosts_of(s).is_cartesian(); },
    .crossing = crossing,
};

}  // namespace tutti
