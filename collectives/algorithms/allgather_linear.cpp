// Linear allgather. Every rank sends its block to all others at once. For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  const int rank = s.rank, size = s.size;
  Schedule one;
  one.round([=](Round& round) {
    const Slice mine = in({0, block[rank].count});
    for (int k = 1; k < size; ++k) {
      const int ahead = modulo(rank + k, size), behind = modulo(rank - k, size);
      round.add(send(ahead, mine), recv(behind, out(block[behind])));
    }
    round.add(copy(out(block[rank]), mine));
  });
  return one;
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
};

}  // namespace tutti
