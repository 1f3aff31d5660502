// Hierarchical chain reduce: the hierarchical chain broadcast in reverse. A chain through every host reduces its
// ranks' contributions, and a chain of hosts reduces the hosts' results. A large buffer is cut into parts, its lanes,
// which are pipelined, so links between and inside hosts are all busy. If hosts are grouped by racks, there is a chain
// through every rack and a chain of racks. With L ranks on each of H hosts:
//
//   rounds L-1 + H-1 (for the first lane)     elements n     scratch n on ranks that fold and are not the root
//   crossing hosts n (H-1) in all, at most n from one host
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) { return pieces::fold_up(pieces::tree_of_hosts(s, pieces::chain), s.count); }

Cost cost(const Shape& s) {
  const auto others = [](int ranks) { return ranks - 1; };
  return {expenses::depth_of_trees(hosts_of(s), others), s.count};
}

}  // namespace

extern const Algorithm reduce_hierarchical_chain{
    .kind = Kind::reduce,
    .name = "hierarchical_chain",
    .idea = "folded through each host and from host to host, lane after lane: every link once, for large buffers",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), s.count};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return of_trees(hosts_of(s),
                          [&](Links links, int ranks) { return chain(links, ranks, number(s.count), true); });
        },
    .racks = true,
};

}  // namespace tutti
