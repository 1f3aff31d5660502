// Direct allreduce. Every rank sends its buffer to all others, and folds all contributions in rank order: (0 + 1) + 2
// + ... One round. The order of folds is the same on all ranks, and the same as in the shared-memory engines. For few
// ranks and small buffers.
//
//   rounds 1     elements (p-1) n     scratch (p-1) n
//
// Called "linear" or "flat" elsewhere; Chan et al., "Collective communication: theory, practice, and experience", 2007.
#include "collectives/algorithms/expenses.hpp"
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

/// The slice of rank `i`'s contribution.
Slice pieces::InOrder::contribution(int i) const {
  const auto slot = static_cast<std::size_t>(i < ring.rank ? i : i - 1);
  return i == ring.rank ? mine : scratch({at + slot * into.count, into.count});
}

/// Fold k of size - 1 folds. Partial results overwrite the first received contribution. Only the last fold writes to
/// `into`, because `mine` may be the same slice.
Step pieces::InOrder::fold_next(int k) const {
  const Slice partial = scratch({at, into.count});
  const bool is_last = k == ring.size - 2;
  return last(fold(is_last ? into : partial, k == 0 ? contribution(0) : partial, contribution(k + 1)), is_last);
}

void pieces::InOrder::receive(Round& round) const {
  for (int i = 0; i < ring.size; ++i)
    if (i != ring.rank) round.add(recv(i, contribution(i)));
}

void pieces::InOrder::fold_received(Schedule& plan) const {
  plan.use_scratch(at + times(ring.size - 1, into.count));
  plan.rounds(ring.size - 1, [order = *this](int k, Round& round) { round.add(order.fold_next(k)); });
}

namespace {

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Range all{0, s.count};
  const pieces::InOrder order{{s.rank, s.size}, out(all), in(all)};
  Schedule direct;
  direct.round([=](Round& round) {
    for (int k = 1; k < order.ring.size; ++k) round.add(send(modulo(order.ring.rank + k, order.ring.size), order.mine));
    order.receive(round);
  });
  order.fold_received(direct);
  return direct;
}

}  // namespace

extern const Algorithm allreduce_direct{
    .kind = Kind::allreduce,
    .name = "direct",
    .idea = "everyone sends to everyone and folds in rank order: one round, for few ranks and few bytes",
    .plan = plan,
    .cost = [](const Shape& s) -> Cost {
      return {1, times(s.size - 1, s.count)};
    },
    .expense =
        [](const Shape& s) {
          using namespace expenses;
          return at_once(flat(s), s.size - 1, (s.size - 1) * number(s.count), (s.size - 1) * number(s.count));
        },
    .alike = true,
};

}  // namespace tutti
