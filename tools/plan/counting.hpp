// Counting: counts what all ranks of a call do, from their schedules. This takes a hundredth of the time of a replay.
#pragma once

#include <cstddef>

#include "collectives/model/replay.hpp"

namespace tutti::planning {

struct Counted {
  /// The counts of all ranks, even if only the ranks of one host were counted. Counts::chain is not computed.
  model::Counts counts;
  std::size_t played = 0;     ///< number of messages that a replay has to simulate
  std::size_t schedules = 0;  ///< bytes of the schedules of the rank with the largest ones
  bool by_alike = false;      ///< true: only one host was counted, because all hosts do the same
  bool whole = true;          ///< false: there were too many steps, so `counts` are those of the first ranks only
};

/// Counts the call, but stops after about `most_steps` steps. Takes about 10 ns for each step.
Counted count(const model::Collective& call, std::size_t most_steps);

/// Returns the number of messages inside hosts, between hosts and between racks together.
inline std::size_t messages_of(const model::Counts& counts) noexcept {
  return counts.messages[0] + counts.messages[1] + counts.messages[2];
}

}  // namespace tutti::planning
