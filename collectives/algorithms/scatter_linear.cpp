// Linear scatter. The root sends every rank its block at once. One round, no intermediate copies; limited by the
// root's link, like any scatter of large blocks.
//
//   rounds 1     elements (p-1) n, n the count of one block     scratch none
//
// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Blocks block(s.count, s.size, s.in_counts);
  const Slice mine = out({0, block[s.rank].count});
  Schedule one;
  if (s.rank != s.root) {
    one.round({recv(s.root, mine)});
    return one;
  }
  std::vector<Step> steps;
  for (int k = 1; k < s.size; ++k) {
    const int peer = modulo(s.rank + k, s.size);
    steps.push_back(send(peer, in(block[peer])));
  }
  steps.push_back(copy(mine, in(block[s.rank])));
  one.round(std::move(steps));
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
};

}  // namespace tutti
