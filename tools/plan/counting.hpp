// Counting: what all ranks of a call do, by making their schedules, which takes a hundredth of playing them.
#pragma once

#include <cstddef>

#include "collectives/model/replay.hpp"

namespace tutti::planning {

struct Counted {
  /// All but the chain. Of all ranks, also where those of one host were counted.
  model::Counts counts;
  std::size_t played = 0;     ///< messages that a replay has to play
  std::size_t schedules = 0;  ///< bytes of the schedules of the rank that has most
  bool by_alike = false;      ///< counted on one host, as all others do the same
  bool whole = true;          ///< false: there were too many steps, and `counts` are of the first ranks only
};

/// Counts at most about so many steps. Takes about 10 ns for each.
Counted count(const model::Collective& call, std::size_t most_steps);

/// Messages in all.
inline std::size_t messages_of(const model::Counts& counts) noexcept {
  return counts.messages[0] + counts.messages[1] + counts.messages[2];
}

}  // namespace tutti::planning
