// Pairwise reduce-scatter. In round k every rank sends to the rank k ahead the block of `in` for that rank, and folds
// the block from the rank k behind into its result. Only original data is sent, so there is no scratch, and rounds do
// not depend on other ranks' folds.
//
//   rounds p-1     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_counts);
  const Slice mine = in(block[s.rank]), result = out({0, mine.count});
  Schedule exchange;
  if (s.size == 1) exchange.round({copy(result, mine)});
  for (int k = 1; k < s.size; ++k) {
    const int ahead = modulo(s.rank + k, s.size), behind = modulo(s.rank - k, s.size);
    exchange.round({send(ahead, in(block[ahead])), recv_reduce(behind, result, k == 1 ? mine : result)});
  }
  exchange.reduced(result);
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
};

}  // namespace tutti
