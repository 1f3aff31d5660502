// Hierarchical chain broadcast. The data goes along a chain over one rank of each host. Each of these ranks also starts
// a chain through its host. A large buffer is cut into parts, its lanes, which are pipelined, so links between and
// inside hosts are all busy; a host receives the buffer once and sends it once. If hosts are grouped by racks, there is
// a chain over one host of each rack; each of these hosts also starts a chain through its rack, and so sends the buffer
// twice. With L ranks on each of H hosts:
//
//   rounds H-1 + L-1 (for the first lane)     elements 2n (a rank in both chains), n if p is 2     scratch none
//   crossing hosts n (H-1) in all, at most n from one host, with racks 2n
//
// van de Geijn & Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997 (pipelined ring broadcast).
#include <algorithm>

#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) { return pieces::hand_down(pieces::tree_of_hosts(s, pieces::chain), s.count); }

Cost cost(const Shape& s) {
  const auto others = [](int ranks) { return ranks - 1; };
  return {expenses::depth_of_trees(hosts_of(s), others),
          times(pieces::sent_down(s, pieces::chain, [](int ranks) { return ranks > 1 ? 1 : 0; }), s.count)};
}

}  // namespace

extern const Algorithm broadcast_hierarchical_chain{
    .kind = Kind::broadcast,
    .name = "hierarchical_chain",
    .idea = "from host to host and through each, lane after lane: every link once, for large buffers",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape& s) { return pieces::crossing_down(s, pieces::chain); },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return of_trees(hosts_of(s),
                          [&](Links links, int ranks) { return chain(links, ranks, number(s.count), false); });
        },
    .racks = true,
};

}  // namespace tutti
