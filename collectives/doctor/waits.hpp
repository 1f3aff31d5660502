// Waits: which rank waits for which, and in which call.
#pragma once

#include <optional>
#include <vector>

#include "collectives/doctor/job.hpp"

namespace tutti::doctor {

/// Rank `waiter` has waited in `call` for longer than the job's patience, and the call needs something of rank
/// `for_rank` that it has not done: it has not made the collective, or not the counterpart of a send or receive.
struct Wait {
  int waiter = 0;
  int for_rank = 0;
  const RecordedCall* call = nullptr;
};

/// All waits of a job for ranks that have not done their part.
class Waits {
 public:
  explicit Waits(const Job& job);

  const std::vector<Wait>& all() const noexcept { return all_; }
  /// The waits of one rank in the call that a thread of it waits for; empty if it does not wait, or not for a rank.
  std::vector<Wait> of(int rank) const;
  /// The ranks that others wait for and that do not wait themselves, so that they hold up the job; ascending.
  std::vector<int> idle() const;
  /// Ranks of which each waits for the next one and the last for the first, with those waits; empty if there are none.
  std::vector<Wait> circle() const;
  /// Calls that have run for long although every rank has done its part, as far as is known; one per rank at most.
  const std::vector<std::pair<int, const RecordedCall*>>& complete() const noexcept { return complete_; }

 private:
  void look_at(int rank, const RecordedCall& call);
  bool look_at_collective(int rank, const RecordedCall& call);
  bool look_at_exchange(int rank, const RecordedCall& call);
  bool needs_message(int receiver, int sender, const RecordedCall& call) const;
  bool needs_receiver(int sender, int receiver, const RecordedCall& call) const;

  const Job& job_;
  std::vector<Wait> all_;
  std::vector<std::pair<int, const RecordedCall*>> complete_;
};

}  // namespace tutti::doctor
