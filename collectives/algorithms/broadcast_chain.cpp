// Chain broadcast. The root sends to the next rank, which forwards to its next rank, and so on. A large buffer is cut
// into parts, its lanes, which are pipelined along the chain, so every link is busy. The time is that of sending the
// buffer and p-2 more lanes.
//
//   rounds p-1 (for the first lane)     elements n     scratch none
//
// van de Geijn & Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997 (pipelined ring broadcast).
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

pieces::Node pieces::chain(Ring ring, int root) {
  Node node;
  if (ring.rank != root) node.parent = ring.prev();
  if (ring.next() != root) node.add(ring.next());
  return node;
}

extern const Algorithm broadcast_chain{
    .kind = Kind::broadcast,
    .name = "chain",
    .idea = "handed on from neighbour to neighbour, lane after lane, for large buffers",
    .plan = [](const Shape& s) -> Schedule {
      return pieces::hand_down(pieces::chain({s.rank, s.size}, s.root), s.count);
    },
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, s.count};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return chain_of_ranks(s, number(s.count), false);
        },
    .racks = true,
};

}  // namespace tutti
