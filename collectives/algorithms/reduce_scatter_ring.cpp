// Ring reduce-scatter. The partial result of each block travels once around the ring to its owner, and each rank
// folds its contribution into it. `in` is only read; partial results alternate between two blocks of scratch, and the
// last fold writes to `out`.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch 2n
//
// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Ring ring{s.rank, s.size};
  const Blocks block(s.count, s.size, s.in_counts);
  const Slice result = out({0, block[s.rank].count});
  Schedule ring_plan;
  if (s.size == 1) ring_plan.round({copy(result, in(block[0]))});
  Slice leaving = in(block[s.rank - 1]);
  for (int k = 0; k < s.size - 1; ++k) {
    const Range own = block[s.rank - k - 2];
    const Slice arriving =
        k == s.size - 2 ? result : scratch({static_cast<std::size_t>(k % 2) * block.largest(), own.count});
    ring_plan.round({send(ring.next(), leaving), recv_reduce(ring.prev(), arriving, in(own))});
    leaving = arriving;
  }
  if (s.size > 2) ring_plan.use_scratch(2 * block.largest());
  ring_plan.reduced(result);
  return ring_plan;
}

}  // namespace

extern const Algorithm reduce_scatter_ring{
    .kind = Kind::reduce_scatter,
    .name = "ring",
    .idea = "partial results travel once around a ring to their owners: neighbours only",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, times(s.size - 1, s.count)};
    },
    .variable = true,
};

}  // namespace tutti
