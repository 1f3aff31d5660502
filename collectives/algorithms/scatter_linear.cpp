// Linear scatter. The root sends every rank its block at once. One round, no intermediate copies; limited by the
// root's link, like any scatter of large blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_blocks);
  const int rank = s.rank, size = s.size, root = s.root;
  Schedule one;
  one.round([=](Round& round) {
    const Slice mine = out({0, block[rank].count});
    if (rank != root) return round.add(recv(root, mine));
    for (int k = 1; k < size; ++k) {
      const int peer = modulo(rank + k, size);
      round.add(send(peer, in(block[peer])));
    }
    round.add(copy(mine, in(block[rank])));
  });
  return one;
}

}  // namespace

extern const Algorithm scatter_linear{
    .kind = Kind::scatter,
    .name = "linear",
    .idea = "the root sends straight to everyone: one round, for large blocks or few ranks",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .variable = true,
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return tree(flat(s), std::min(s.size - 1, 1), s.size - 1, number(s.count), false);
        },
};

}  // namespace tutti
