// Tree-of-hosts allreduce. Every host reduces to its first rank, these leaders allreduce by recursive doubling, and
// each broadcasts the result on its host. If hosts are grouped by racks, the leaders of a rack reduce to the first of
// them, the first leaders of all racks allreduce, and each broadcasts to the leaders of its rack. Any number of ranks
// on any host. Only leaders communicate between hosts, in few rounds. For small buffers if hosts have different numbers
// of ranks. With L ranks on each of H hosts, h the largest power of two at most H:
//
//   rounds ceil(log2 L) + floor(log2 L) + log2 h, and 2 more if h < H
//   elements n ceil(log2 L) + n log2 h, and n more if h < H (a leader)     scratch n
//   crossing hosts n times h log2 h + 2(H-h) in all
//
// TorchMPI's tree communicators, 2017; Karonis et al., "Exploiting hierarchy in parallel computer networks", IPDPS
// 2000.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank);
  const Shape inside{.rank = hosts.index_of(s.rank), .size = hosts.size_of(host), .count = s.count};
  const Shape between{.rank = host, .size = hosts.count(), .count = s.count, .hosts = hosts.above()};
  const auto among_leaders = [&] {
    return between.hosts != nullptr ? plan(between) : pieces::allreduce_recursive_doubling(between);
  };
  const std::span<const int> members = hosts[host];
  if (between.size > 1 && inside.size == 1) return among_leaders().on(Members::across(hosts, 0));
  Schedule whole = pieces::reduce_binomial(inside).on(members);
  if (between.size > 1) whole = std::move(whole).partial();
  if (between.size > 1 && inside.rank == 0) whole.then(among_leaders().on(Members::across(hosts, 0)).in_place());
  whole.then(pieces::broadcast_binomial(inside).on(members));
  return whole;
}

/// Messages that a host sends to others.
int sends(int host, const Hosts& hosts) {
  if (const Hosts* const racks = hosts.above(); racks != nullptr) {
    const int rack = racks->host_of(host), index = racks->index_of(host), size = racks->size_of(rack);
    const int down = BinomialTree{index, size, 0}.children();
    return index > 0 ? 1 + down : down + sends(rack, *racks);
  }
  const int k = power_of_two_below(hosts.count());
  if (host >= k) return 1;
  return log2_floor(k) + (host + k < hosts.count() ? 1 : 0);
}

/// Rounds of the phases between hosts.
int rounds_between(const Hosts& hosts) {
  if (const Hosts* const racks = hosts.above(); racks != nullptr)
    return log2_ceil(racks->largest()) + log2_floor(racks->largest()) + rounds_between(*racks);
  const int k = power_of_two_below(hosts.count());
  return log2_floor(k) + (k < hosts.count() ? 2 : 0);
}

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int most = hosts.largest();
  int messages = 1;  // for a leaf
  for (int host = 0; host < hosts.count(); ++host)
    messages = std::max(messages, log2_ceil(hosts.size_of(host)) + sends(host, hosts));
  return {log2_ceil(most) + log2_floor(most) + rounds_between(hosts), times(messages, s.count)};
}

Crossing crossing(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  Crossing what;
  for (int host = 0; host < hosts.count(); ++host) {
    const std::size_t sent = times(sends(host, hosts), s.count);
    what.total += sent;
    what.most = std::max(what.most, sent);
  }
  return what;
}

Expense expense_of(const Hosts& hosts, expenses::Links links, double count) {
  using namespace expenses;
  const Links farther = alone(above(links, hosts));
  const Expense leaders =
      hosts.above() != nullptr ? expense_of(*hosts.above(), farther, count) : doubling(farther, hosts.count(), count);
  return there_and_back(binomial(links, hosts.largest(), count, true) + leaders,
                        binomial(links, hosts.largest(), count, false));
}

}  // namespace

extern const Algorithm allreduce_tree_of_hosts{
    .kind = Kind::allreduce,
    .name = "tree_of_hosts",
    .idea = "reduce to a leader on each host, double among the leaders, broadcast: any hosts, for small buffers",
    .plan = plan,
    .cost = cost,
    .crossing = crossing,
    .expense = [](const Shape& s) { return expense_of(hosts_of(s), expenses::inside, expenses::number(s.count)); },
    .racks = true,
};

}  // namespace tutti
