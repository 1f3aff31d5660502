// Linear gather. Every rank sends its block to the root at once, and the root receives each in place. One round, no
// intermediate copies; limited by the root's link, like any gather of large blocks.
//
//   rounds 1     elements n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.out_blocks);
  const int rank = s.rank, size = s.size, root = s.root;
  Schedule one;
  one.round([=](Round& round) {
    const Slice mine = in({0, block[rank].count});
    if (rank != root) return round.add(send(root, mine));
    for (int i = 0; i < size; ++i)
      if (i != rank) round.add(recv(i, out(block[i])));
    round.add(copy(out(block[rank]), mine));
  });
  return one;
}

}  // namespace

extern const Algorithm gather_linear{
    .kind = Kind::gather,
    .name = "linear",
    .idea = "everyone sends straight to the root: one round, for large blocks or few ranks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, s.count};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return tree(flat(s), std::min(s.size - 1, 1), s.size - 1, number(s.count), false);
        },
};

}  // namespace tutti
