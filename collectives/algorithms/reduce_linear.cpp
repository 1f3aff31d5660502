// Linear reduce. All ranks send their buffers to the root at once, and the root folds these in rank order, (0 + 1) + 2
// + ..., for any root. For few ranks and small buffers.
//
//   rounds 1     elements n     scratch (p-1) n at the root
//
// Chan, Heimlich, Purkayastha & van de Geijn, "Collective communication: theory, practice, and experience",
// Concurrency and Computation 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Range all{0, s.count};
  const bool is_root = s.rank == s.root;
  const pieces::InOrder order{{s.rank, s.size}, out(all), in(all)};
  Schedule one;
  one.round([=](Round& round) {
    if (!is_root) return round.add(send(s.root, order.mine));
    order.receive(round);
  });
  if (is_root) order.fold_received(one);
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
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return tree(flat(s), std::min(s.size - 1, 1), s.size - 1, number(s.count), true);
        },
};

}  // namespace tutti
