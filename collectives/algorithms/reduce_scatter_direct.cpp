// Direct reduce-scatter. Every rank sends all blocks to their owners at once. Each owner folds in rank order: (0 + 1)
// + 2 + ... For few ranks and small blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch (p-1) n
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::fold_at_owners(Ring ring, const Blocks& block, Slice into) {
  const InOrder order{ring, into, in(block[ring.rank])};
  Schedule direct;
  direct.round([=](Round& round) {
    if (ring.size == 1) return round.add(copy(into, order.mine));
    for (int k = 1; k < ring.size; ++k) {
      const int ahead = modulo(ring.rank + k, ring.size);
      round.add(send(ahead, in(block[ahead])));
    }
    order.receive(round);
  });
  order.fold_received(direct);
  return direct;
}

namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_blocks);
  return pieces::fold_at_owners({s.rank, s.size}, block, out({0, block[s.rank].count}));
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
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return at_once(flat(s), s.size - 1, (s.size - 1) * number(s.count), (s.size - 1) * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
