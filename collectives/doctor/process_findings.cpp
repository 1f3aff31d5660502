// Findings about processes: gone, failed, stopped.
#include "collectives/doctor/findings.hpp"
#include "collectives/doctor/held.hpp"
#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;
using Life = Patient::Life;

/// Ranks whose process has gone without an end of the library, and that no earlier failure explains.
std::vector<int> lost_ranks(const Job& job) {
  std::vector<int> victims, own;
  for (const auto& [rank, patient] : job.patients()) {
    if (patient->life != Life::gone || patient->recording.stage == Stage::ended) continue;
    const auto& failure = patient->recording.failure;
    (failure && failure->culprit != rank ? victims : own).push_back(rank);
  }
  return own;
}

}  // namespace

Found find_lost(const Job& job) {
  const std::vector<int> lost = lost_ranks(job);
  if (lost.empty()) return std::nullopt;
  std::string text;
  for (const int rank : lost) {
    text += (text.empty() ? "" : " ") + as_sentence("rank " + std::to_string(rank)) + " is gone (" +
            process_text(job, rank) + "): " + end_text(job, rank) + ".";
  }
  return Finding{Kind::lost, lost,
                 text + " Look at what it wrote last, and at the kernel's log for one that was killed."};
}

std::vector<int> late_to_connect(const Job& job) {
  std::vector<int> ranks;
  for (const auto& [rank, patient] : job.patients())
    if (patient->life != Life::gone && patient->recording.stage == Stage::connecting &&
        job.now() - patient->recording.staged_at >= job.patience())
      ranks.push_back(rank);
  return ranks;
}

Found find_failure(const Job& job) {
  for (const auto& [rank, patient] : job.patients()) {
    const auto& failure = patient->recording.failure;
    if (!failure) continue;
    Finding found{Kind::failed, {}, as_sentence("rank " + std::to_string(rank)) + " has failed: " + failure->text};
    if (!found.text.ends_with('.')) found.text += '.';
    if (failure->culprit >= 0) {
      found.culprits = {failure->culprit};
      if (job.patient(failure->culprit) != nullptr)
        found.text +=
            " As for rank " + std::to_string(failure->culprit) + ", " + state_text(job, failure->culprit) + ".";
    }
    return found;
  }
  return std::nullopt;
}

Found find_stopped(const Job& job, const Waits& waits) {
  std::vector<int> stopped;
  for (const auto& [rank, patient] : job.patients())
    if (patient->life == Life::stopped) stopped.push_back(rank);
  if (stopped.empty() || (waits.all().empty() && waits.complete().empty())) return std::nullopt;
  const Held held = held_by(waits, stopped.front());
  std::string text = as_sentence(ranks_of(stopped)) + (stopped.size() == 1 ? " is" : " are") + " stopped (" +
                     process_text(job, stopped.front()) + "); " + last_text(job, stopped.front());
  if (held.call != nullptr)
    text += ". In " + call_text(job, *held.call) + ", " + waiters_text(job, held.waiters, held.since);
  else if (!waits.complete().empty())
    text += ". In " + call_text(job, *waits.complete().front().second) + ", rank " +
            std::to_string(waits.complete().front().first) + " waits";
  return Finding{Kind::stopped, stopped, text + ". Continue the process with SIGCONT, or end the job."};
}

}  // namespace tutti::doctor
