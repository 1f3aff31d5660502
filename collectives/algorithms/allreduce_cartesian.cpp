// Cartesian allreduce, for hosts with equally many ranks, which form a grid: first an allreduce among the ranks of
// every host, then one among the ranks with the same local index on all hosts. Both use recursive doubling, which
// gives the fewest rounds, of which log2 H are between hosts; but every rank sends the whole buffer to other hosts.
// For small buffers. If the hosts are grouped by racks of equally many hosts, the hosts form such a grid too, and the
// second allreduce has the same two phases. With L ranks on each of H hosts, h and l the largest powers of two at most
// H and L:
//
//   rounds log2 l + log2 h, and 2 more if l < L, and 2 more if h < H
//   elements n log2 l + n log2 h, and n more if l < L, and n more if h < H     scratch n
//   crossing hosts L n times h log2 h + 2(H-h) in all
//
// TorchMPI's cartesian communicators, 2017; for each axis see allreduce_recursive_doubling.cpp.
#include <utility>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// The racks of the hosts if all racks of a level have equally many members, on every level; else null.
const Hosts* grid_above(const Hosts& hosts) {
  for (const Hosts* racks = hosts.above(); racks != nullptr; racks = racks->above())
    if (!racks->is_cartesian()) return nullptr;
  return hosts.above();
}

/// Calls each(n, groups) for every phase between hosts, in order. In a phase, the ranks with the same local index make
/// `groups` allreduces of n ranks each.
template <typename Each>
void each_axis(const Hosts& hosts, Each each) {
  const Hosts* top = &hosts;
  for (const Hosts* racks = grid_above(hosts); racks != nullptr; racks = racks->above()) {
    each(racks->largest(), hosts.count() / racks->largest());
    top = racks;
  }
  each(top->count(), hosts.count() / top->count());
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), index = hosts.index_of(s.rank);
  const Shape row{.rank = index, .size = hosts.size_of(host), .count = s.count};
  const Shape column{.rank = host, .size = hosts.count(), .count = s.count, .hosts = grid_above(hosts)};
  Schedule inside = pieces::allreduce_recursive_doubling(row).on(hosts[host]);
  if (column.size == 1) return inside;
  Schedule across = column.hosts != nullptr ? plan(column) : pieces::allreduce_recursive_doubling(column);
  across = std::move(across).on(Members::across(hosts, index));
  if (row.size == 1) return across;
  Schedule whole = std::move(inside).partial();
  whole.then(std::move(across).in_place());
  return whole;
}

bool has_extra(int n) { return power_of_two_below(n) < n; }

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Cost sum;
  const auto add = [&](int n, int) {
    sum.rounds += log2_floor(n) + (has_extra(n) ? 2 : 0);
    sum.elements += times(log2_floor(n) + (has_extra(n) ? 1 : 0), s.count);
  };
  add(hosts.smallest(), 1);
  each_axis(hosts, add);
  return sum;
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const std::size_t n = times(hosts.smallest(), s.count);
  Crossing sum;
  each_axis(hosts, [&](int axis, int groups) {
    const int k = power_of_two_below(axis), extra = axis - k;
    sum.total += times(groups * (k * log2_floor(k) + 2 * extra), n);
    sum.most += times(log2_floor(k) + (extra > 0 ? 1 : 0), n);
  });
  return sum;
}

Expense expense(const Shape& s) {
  using namespace expenses;
  const Hosts& hosts = hosts_of(s);
  Expense sum = doubling(inside, hosts.largest(), number(s.count));
  const Hosts* racks = grid_above(hosts);
  const bool in_grid = racks != nullptr || hosts.above() == nullptr;
  Links links = in_grid ? above(inside, hosts) : beyond(hosts, hosts.columns(), hosts.above()->largest());
  each_axis(hosts, [&](int n, int) {
    sum = sum + doubling(links, n, number(s.count));
    if (racks != nullptr) links = above(links, *racks);
  });
  return sum;
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
    .expense = expense,
    .racks = true,
};

}  // namespace tutti
