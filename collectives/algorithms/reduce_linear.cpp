// Linear reduce. Every rank sends its buffer to the root at once, and the root folds them in rank order, (0 + 1) + 2
// + ..., for any root. For few ranks and small buffers.
//
//   rounds 1     elements n     scratch (p-1) n at the root
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Range all{0, s.count};
  const bool is_root = s.rank == s.root;
  Schedule one;
  one.round([=](Round& round) {
    if (!is_root) return round.add(send(s.root, in(all)));
    pieces::receive_all(s, out(all), in(all), round);
  });
  if (is_root) pieces::fold_received(one, s, out(all), in(all));
  return one;
}

}  // namespace

extern const Algorithm reduce_linear{
    .kind = Kind::reduce,
    .name = "linear",
    .idea = "everyone sends to the root, which folds in rank order: one round, for few ranks and few bytes",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, s.count};
    },
};

}  // namespace tutti
