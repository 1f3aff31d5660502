// Ring allreduce. The buffer is cut into one chunk per rank. In p-1 rounds every chunk travels once around the ring,
// and each rank folds its contribution into it; it ends at the chunk's owner (reduce-scatter). In p-1 more rounds the
// complete chunks travel around the ring (allgather). The first contribution is read from `in`, and partial results
// are in `out`: nothing is copied.
//
//   rounds 2(p-1)     elements 2n less the two smallest chunks: about 2n(p-1)/p     scratch none
//
// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

Schedule pieces::fold_around(Ring ring, const Blocks& block) {
  Schedule plan;
  plan.rounds(ring.size - 1, [=](int k, Round& round) {
    const Range leaving = block[ring.rank - k - 1], arriving = block[ring.rank - k - 2];
    round.add(send(ring.next(), k == 0 ? in(leaving) : out(leaving)),
              last(recv_reduce(ring.prev(), out(arriving), in(arriving)), k == ring.size - 2));
  });
  return plan;
}

Schedule pieces::allreduce_ring(const Shape& s) {
  if (s.size == 1) return alone(s.count);
  const Ring ring{s.rank, s.size};
  const Chunks chunk(s.count, s.size);
  Schedule plan = fold_around(ring, Blocks(chunk));
  plan.then(circulate(ring, Blocks(chunk), out(chunk[s.rank])));
  return plan;
}

extern const Algorithm allreduce_ring{
    .kind = Kind::allreduce,
    .name = "ring",
    .idea = "reduce-scatter, then allgather, around a ring: the least data, for large buffers",
    .plan = pieces::allreduce_ring,
    .cost = [](const Shape& s) -> Cost {
      return {2 * (s.size - 1), 2 * s.count - Chunks(s.count, s.size).run(s.size - 2, 2).count};
    },
    .parts = [](const Shape& s) { return s.size; },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return ring_of_ranks(s, number(s.count) / s.size, true) + ring_of_ranks(s, number(s.count) / s.size);
        },
    .alike = true,
    .racks = true,
};

}  // namespace tutti
