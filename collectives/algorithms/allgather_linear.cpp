// Linear allgather. Every rank sends its block to all others at once. For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::give_to_all(Ring ring, const Blocks& block, Slice mine) {
  Schedule one;
  one.round([=](Round& round) {
    for (int k = 1; k < ring.size; ++k) {
      const int ahead = modulo(ring.rank + k, ring.size), behind = modulo(ring.rank - k, ring.size);
      round.add(send(ahead, mine), recv(behind, out(block[behind])));
    }
    round.add(copy(out(block[ring.rank]), mine));
  });
  return one;
}

namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  return pieces::give_to_all({s.rank, s.size}, block, in({0, block[s.rank].count}));
}

}  // namespace

extern const Algorithm allgather_linear{
    .kind = Kind::allgather,
    .name = "linear",
    .idea = "everyone sends to everyone: one round, for few ranks and small blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return at_once(flat(s), s.size - 1, (s.size - 1) * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
