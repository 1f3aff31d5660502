// Linear broadcast. The root sends the buffer to all ranks at once. For few ranks and small buffers.
//
//   rounds 1     elements (p-1) n (the root)     scratch none
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/geometry.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  const Slice all = out({0, s.count});
  Schedule one;
  std::vector<Step> steps;
  if (s.rank != s.root) steps.push_back(recv(s.root, all));
  for (int k = 1; k < s.size && s.rank == s.root; ++k) steps.push_back(send(modulo(s.rank + k, s.size), all));
  one.round(std::move(steps));
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
};

}  // namespace tutti
