// Direct allreduce. Every rank sends its buffer to all others, and folds all contributions in rank order: (0 + 1) + 2
// + ... One round. The order of folds is the same on all ranks, and the same as in the shared-memory engines. For few
// ranks and small buffers.
//
//   rounds 1     elements (p-1) n     scratch (p-1) n
//
// Called "linear" or "flat" elsewhere; Chan et al., "Collective communication: theory, practice, and experience", 2007.
#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti {

namespace {

/// The contributions of all ranks to `mine`, and their folds in rank order into `into`.
struct InOrder {
  int rank, size;
  Slice into, mine;

  /// Where rank `i`'s contribution is.
  Slice contribution(int i) const {
    const auto slot = static_cast<std::size_t>(i < rank ? i : i - 1);
    return i == rank ? mine : scratch({slot * into.count, into.count});
  }
  /// Fold k of size - 1. Partial results overwrite the first slot. `mine` may be `into` itself, so only the last fold
  /// writes to it.
  Step fold_next(int k) const {
    const Slice partial = scratch({0, into.count});
    const bool is_last = k == size - 2;
    return last(fold(is_last ? into : partial, k == 0 ? contribution(0) : partial, contribution(k + 1)), is_last);
  }
};

}  // namespace

void pieces::receive_all(const Shape& s, Slice into, Slice mine, Round& round) {
  const InOrder order{s.rank, s.size, into, mine};
  for (int i = 0; i < s.size; ++i)
    if (i != s.rank) round.add(recv(i, order.contribution(i)));
}

void pieces::fold_received(Schedule& plan, const Shape& s, Slice into, Slice mine) {
  const InOrder order{s.rank, s.size, into, mine};
  plan.use_scratch(times(s.size - 1, into.count));
  plan.rounds(s.size - 1, [=](int k, Round& round) { round.add(order.fold_next(k)); });
}

namespace {

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Range all{0, s.count};
  Schedule direct;
  direct.round([=](Round& round) {
    for (int k = 1; k < s.size; ++k) round.add(send(modulo(s.rank + k, s.size), in(all)));
    pieces::receive_all(s, out(all), in(all), round);
  });
  pieces::fold_received(direct, s, out(all), in(all));
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
};

}  // namespace tutti
