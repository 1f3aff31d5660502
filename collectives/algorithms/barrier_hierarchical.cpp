// Hierarchical barrier. Notifications go up a binomial tree on every host to its first rank; these leaders run a
// dissemination barrier; then notifications go down the trees. Only leaders communicate between hosts. If hosts are
// grouped by racks, the leaders run a hierarchical barrier too: trees inside each rack, dissemination across racks.
// With L ranks on each of H hosts:
//
//   rounds 2 floor(log2 L) + ceil(log2 H)     elements 0     scratch none
//   crossing no elements, only H ceil(log2 H) notifications
//
// Mellor-Crummey & Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", TOCS 1991.
#include <utility>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

/// Notifications up a host's tree, or down.
Schedule pass(const pieces::Node& node, bool up) {
  Schedule plan;
  const auto children = [=](Round& round) {
    for (const int child : node.children()) round.add(up ? await(child) : notify(child));
  };
  if (up) plan.round(children);
  if (node.parent >= 0) plan.round([=](Round& round) { round.add(up ? notify(node.parent) : await(node.parent)); });
  if (!up) plan.round(children);
  return plan;
}

Schedule plan(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int host = hosts.host_of(s.rank), count = hosts.count();
  const pieces::Node node = pieces::binomial({hosts.index_of(s.rank), hosts.size_of(host)}, 0);
  Schedule leaders;
  if (node.parent < 0 && hosts.above() != nullptr)
    leaders = plan({.rank = host, .size = count, .hosts = hosts.above()});
  else if (node.parent < 0)
    leaders.rounds(log2_ceil(count), [=](int k, Round& round) {
      const int distance = 1 << k;
      round.add(notify(modulo(host + distance, count)), await(modulo(host - distance, count)));
    });
  const std::span<const int> inside = hosts[host];
  Schedule whole = pass(node, true).on(inside);
  whole.then(std::move(leaders).on(Members::across(hosts, 0)));
  whole.then(pass(node, false).on(inside));
  return whole;
}

int rounds(const Hosts& hosts) {
  const int between = hosts.above() != nullptr ? rounds(*hosts.above()) : log2_ceil(hosts.count());
  return 2 * log2_floor(hosts.largest()) + between;
}

Cost cost(const Shape& s) { return {rounds(hosts_of(s)), 0}; }

Expense expense_of(const Hosts& hosts, expenses::Links links) {
  using namespace expenses;
  const Links farther = alone(above(links, hosts));
  const Expense leaders =
      hosts.above() != nullptr ? expense_of(*hosts.above(), farther) : exchange(farther, log2_ceil(hosts.count()), 0);
  return binomial(links, hosts.largest(), 0, true) + leaders + binomial(links, hosts.largest(), 0, false);
}

}  // namespace

extern const Algorithm barrier_hierarchical{
    .kind = Kind::barrier,
    .name = "hierarchical",
    .idea = "up a tree on each host, dissemination among the hosts' first ranks, down again",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape&) -> Crossing { return {}; },
    .expense = [](const Shape& s) { return expense_of(hosts_of(s), expenses::inside); },
    .racks = true,
};

}  // namespace tutti
