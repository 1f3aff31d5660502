// Direct reduce-scatter. Every rank sends each block to its owner at once, and the owner folds in rank order: (0 + 1)
// + 2 + ... For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch (p-1) n
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_blocks);
  const Slice mine = in(block[s.rank]), result = out({0, mine.count});
  Schedule direct;
  direct.round([=](Round& round) {
    if (s.size == 1) return round.add(copy(result, mine));
    for (int k = 1; k < s.size; ++k) {
      const int ahead = modulo(s.rank + k, s.size);
      round.add(send(ahead, in(block[ahead])));
    }
    pieces::receive_all(s, result, mine, round);
  });
  pieces::fold_received(direct, s, result, mine);
  return direct;
}

}  // namespace

extern const Algorithm reduce_scatter_direct{
    .kind = Kind::reduce_scatter,
    .name = "direct",
    .idea = "every block to its owner, who folds in rank order: one round, for few ranks and small blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .variable = true,
};

}  // namespace tutti
