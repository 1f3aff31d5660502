// Hierarchical barrier. Notifications go up a binomial tree on every host to its first rank; these leaders run a
// dissemination barrier; then notifications go down the trees. Only leaders communicate between hosts. With L ranks
// on each of H hosts:
//
//   rounds 2 floor(log2 L) + ceil(log2 H)     elements 0     scratch none
//   crossing nothing but H ceil(log2 H) notifications
//
// Mellor-Crummey & Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", TOCS 1991.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  const int host = hosts.host_of(s.rank);
  const pieces::Node node = pieces::binomial({hosts.index_of(s.rank), hosts.size_of(host)}, 0);
  std::vector<Step> up, down;
  for (const int child : node.children) {
    up.push_back(await(child));
    down.push_back(notify(child));
  }
  Schedule inside, after;
  inside.round(std::move(up));
  if (node.parent >= 0) {
    inside.round({notify(node.parent)});
    after.round({await(node.parent)});
  }
  after.round(std::move(down));

  Schedule whole = inside.on(hosts[host]);
  const std::vector<int> leaders = hosts.across(0);
  for (int distance = 1; node.parent < 0 && distance < hosts.count(); distance *= 2) {
    const int ahead = modulo(host + distance, hosts.count()), behind = modulo(host - distance, hosts.count());
    whole.round({notify(leaders[static_cast<std::size_t>(ahead)]), await(leaders[static_cast<std::size_t>(behind)])});
  }
  return whole.then(after.on(hosts[host]));
}

Cost cost(const Shape& s) {
  const Hosts hosts(s.host, s.size);
  return {2 * log2_floor(hosts.largest()) + log2_ceil(hosts.count()), 0};
}

}  // namespace

extern const Algorithm barrier_hierarchical{
    .kind = Kind::barrier,
    .name = "hierarchical",
    .idea = "up a tree on each host, dissemination among the hosts' first ranks, down again",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape&) -> Crossing { return {}; },
};

}  // namespace tutti
