// Linear broadcast. The root sends the buffer to all ranks at once. For few ranks and small buffers.
//
//   rounds 1     elements (p-1) n (the root)     scratch none
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Slice all = out({0, s.count});
  const int rank = s.rank, size = s.size, root = s.root;
  Schedule one;
  one.round([=](Round& round) {
    if (rank != root) return round.add(recv(root, all));
    for (int k = 1; k < size; ++k) round.add(send(modulo(rank + k, size), all));
  });
  return one;
}

}  // namespace

extern const Algorithm broadcast_linear{
    .kind = Kind::broadcast,
    .name = "linear",
    .idea = "the root sends to everyone: one round, for few ranks and few bytes",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return tree(flat(s), std::min(s.size - 1, 1), s.size - 1, number(s.count), false);
        },
};

}  // namespace tutti
