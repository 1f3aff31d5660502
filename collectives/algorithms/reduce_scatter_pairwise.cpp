// Pairwise reduce-scatter. In round k every rank sends to the rank k ahead the block of `in` for that rank, and folds
// the block from the rank k behind into its result. Only original data is sent, so there is no scratch, and rounds do
// not depend on other ranks' folds.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_blocks);
  const int rank = s.rank, size = s.size;
  const Slice mine = in(block[rank]), result = out({0, mine.count});
  Schedule exchange;
  if (size == 1) exchange.round([=](Round& round) { round.add(copy(result, mine)); });
  exchange.rounds(size - 1, [=](int i, Round& round) {
    const int ahead = modulo(rank + i + 1, size), behind = modulo(rank - i - 1, size);
    round.add(send(ahead, in(block[ahead])), last(recv_reduce(behind, result, i == 0 ? mine : result), i == size - 2));
  });
  return exchange;
}

}  // namespace

extern const Algorithm reduce_scatter_pairwise{
    .kind = Kind::reduce_scatter,
    .name = "pairwise",
    .idea = "one partner at a time, originals only, folded as they come: no scratch, for large blocks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {s.size - 1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return ring(flat(s), s.size - 1, number(s.count), true);
        },
    .alike = true,
};

}  // namespace tutti
