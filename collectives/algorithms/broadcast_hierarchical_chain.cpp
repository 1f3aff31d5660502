// Hierarchical chain broadcast. The data goes along a chain of hosts, at each to one rank, which also starts a chain
// through its host. The lanes of a large buffer are pipelined, so links between and inside hosts are all busy; a host
// receives the buffer once and sends it once. With L ranks on each of H hosts:
//
//   rounds H-1 + L-1 (for the first lane)     elements 2n (a rank that serves both), n where p is 2     scratch none
//   crossing n (H-1) in all, at most n from one host
//
// van de Geijn & Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997 (pipelined ring broadcast).
#include <algorithm>

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/topology.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) { return pieces::hand_down(pieces::tree_of_hosts(s, pieces::chain), s.count); }

Cost cost(const Shape& s) {
  const Hosts& hosts = hosts_of(s);
  const int last = modulo(hosts.host_of(s.root) - 1, hosts.count());  // the last host of the chain
  int messages = 0;
  for (int host = 0; host < hosts.count(); ++host)
    messages = std::max(messages, (host == last ? 0 : 1) + (hosts.size_of(host) > 1 ? 1 : 0));
  return {hosts.count() - 1 + hosts.largest() - 1, times(messages, s.count)};
}

}  // namespace

extern const Algorithm broadcast_hierarchical_chain{
    .kind = Kind::broadcast,
    .name = "hierarchical_chain",
    .idea = "from host to host and through each, lane after lane: every link once, for large buffers",
    .plan = plan,
    .cost = cost,
    .crossing = [](const Shape& s) -> Crossing {
      return {times(hosts_of(s).count() - 1, s.count), s.count};
    },
};

}  // namespace tutti
