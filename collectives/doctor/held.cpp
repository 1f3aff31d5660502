#include "collectives/doctor/held.hpp"

#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

/// The call in which others have waited longest for `rank`, among the sends and receives or among the collectives.
const RecordedCall* oldest_call(const Waits& waits, int rank, bool exchanges) {
  const RecordedCall* oldest = nullptr;
  for (const Wait& one : waits.all())
    if (one.for_rank == rank && is_exchange(*one.call) == exchanges &&
        (oldest == nullptr || one.call->launched < oldest->launched))
      oldest = one.call;
  return oldest;
}

}  // namespace

std::string have(const std::vector<int>& ranks) { return ranks.size() == 1 ? " has" : " have"; }

std::string waiters_text(const Job& job, const std::vector<int>& waiters, Time since) {
  return ranks_of(waiters) + have(waiters) + " waited for it for " + time_text(job.now() - since);
}

std::vector<int> waiters_in(const Waits& waits, const RecordedCall& call, int rank) {
  std::vector<int> ranks;
  for (const Wait& one : waits.all())
    if (one.for_rank == rank && one.call->group == call.group && one.call->sequence == call.sequence &&
        one.call->what == call.what)
      ranks.push_back(one.waiter);
  return ranks;
}

Held held_by(const Waits& waits, int rank) {
  constexpr Time little = 500'000'000;
  const RecordedCall* const collective = oldest_call(waits, rank, false);
  const RecordedCall* const exchange = oldest_call(waits, rank, true);
  const bool is_cause =
      exchange != nullptr && (collective == nullptr || exchange->launched < collective->launched + little);
  Held held;
  held.call = is_cause ? exchange : collective;
  if (held.call == nullptr) return held;
  held.since = held.call->launched;
  held.waiters = waiters_in(waits, *held.call, rank);
  return held;
}

}  // namespace tutti::doctor
