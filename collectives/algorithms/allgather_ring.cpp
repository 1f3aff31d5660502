// Ring allgather. In every round each rank sends the block that it received last to the next rank; after p-1 rounds
// every rank has every block. Each link carries one block per round. A rank's own block is sent from `in` while it is
// copied to `out`.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch none
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007 ("bucket" algorithms).
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::circulate(Ring ring, const Blocks& block, Slice mine) {
  Schedule plan;
  if (ring.size == 1) plan.round([=](Round& round) { round.add(copy(out(block[0]), mine)); });
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const Range leaving = block[ring.rank - k], arriving = block[ring.rank - k - 1];
    round.add(send(ring.next(), k == 0 ? mine : out(leaving)), recv(ring.prev(), out(arriving)));
    if (k == 0) round.add(copy(out(leaving), mine));
  });
  return plan;
}

namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  return pieces::circulate({s.rank, s.size}, block, in({0, block[s.rank].count}));
}

}  // namespace

extern const Algorithm allgather_ring{
    .kind = Kind::allgather,
    .name = "ring",
    .idea = "every block travels once around a ring: no link is ever idle, for large blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return ring_of_ranks(s, number(s.count));
        },
    .alike = true,
    .racks = true,
};

}  // namespace tutti
