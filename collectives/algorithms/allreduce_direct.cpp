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

void pieces::receive_all_and_fold(Schedule& plan, std::vector<Step> sends, const Shape& s, Slice into, Slice mine) {
  std::vector<Slice> contributions;
  std::vector<Step> steps = std::move(sends);
  for (int rank = 0; rank < s.size; ++rank) {
    const auto slot = static_cast<std::size_t>(rank < s.rank ? rank : rank - 1);
    contributions.push_back(rank == s.rank ? mine : scratch({slot * into.count, into.count}));
    if (rank != s.rank) steps.push_back(recv(rank, contributions.back()));
  }
  plan.use_scratch(static_cast<std::size_t>(s.size - 1) * into.count);
  plan.round(std::move(steps));
  // Partial results overwrite the first slot. `mine` may be `into` itself, so only the last fold writes to it.
  const Slice partial = scratch({0, into.count});
  Slice so_far = contributions.front();
  for (std::size_t i = 1; i < contributions.size(); ++i) {
    const Slice next = i + 1 == contributions.size() ? into : partial;
    plan.round({fold(next, so_far, contributions[i])});
    so_far = next;
  }
  plan.reduced(into);
}

namespace {

Schedule plan(const Shape& s) {
  if (s.size == 1) return pieces::alone(s.count);
  const Range all{0, s.count};
  std::vector<Step> sends;
  for (int k = 1; k < s.size; ++k) sends.push_back(send(modulo(s.rank + k, s.size), in(all)));
  Schedule direct;
  pieces::receive_all_and_fold(direct, std::move(sends), s, out(all), in(all));
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
