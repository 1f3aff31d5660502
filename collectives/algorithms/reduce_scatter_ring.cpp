// Ring reduce-scatter. The partial result of each block travels once around the ring to its owner, and each rank
// folds its contribution into it. `in` is only read; partial results alternate between two blocks of scratch, and the
// last fold writes to `out`.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch 2n
//
// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Ring ring{s.rank, s.size};
  const Blocks block(s.count, s.size, s.in_blocks);
  const Slice result = out({0, block[s.rank].count});
  Schedule plan;
  if (s.size == 1) plan.round([=](Round& round) { round.add(copy(result, in(block[0]))); });
  plan.rounds(s.size - 1, [=](int k, Round& round) {
    const auto partial = [&](int in_round, Range of) {  // the sum that arrives in this round and leaves in the next
      return scratch({static_cast<std::size_t>(in_round % 2) * block.largest(), of.count});
    };
    const Range leaving = block[ring.rank - k - 1], own = block[ring.rank - k - 2];
    const bool is_last = k == ring.size - 2;
    round.add(send(ring.next(), k == 0 ? in(leaving) : partial(k - 1, leaving)),
              last(recv_reduce(ring.prev(), is_last ? result : partial(k, own), in(own)), is_last));
  });
  if (s.size > 2) plan.use_scratch(2 * block.largest());
  return plan;
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
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return ring_of_ranks(s, number(s.count), true);
        },
    .alike = true,
    .racks = true,
};

}  // namespace tutti
