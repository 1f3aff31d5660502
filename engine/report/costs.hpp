// Formulas for what reports cost a rank: they grow with the logarithm of the number of ranks, or not at all.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/report/step_times.hpp"
#include "engine/report/tree.hpp"

namespace tutti::engine {

/// Bytes that a rank puts into the allreduces of StepTimes::gather() for `exchanges` exchanges, if `late` different
/// ranks were the last to arrive at one or more of them.
constexpr std::size_t epoch_times_bytes(std::size_t exchanges, std::size_t late) noexcept {
  return 16 + 12 * exchanges + 8 * late + 40;
}

/// Bytes of the messages that `rank` of `size` sends and receives in StepTimes::gather() to find the worst pairs.
constexpr std::size_t worst_pairs_bytes(int rank, int size) noexcept {
  return 16 * most_named * static_cast<std::size_t>(Tree{size}.meetings(rank));
}

/// The largest number of entries of a rank's WaitRow: one for each rank that was late.
constexpr std::size_t wait_row_entries(std::size_t exchanges, std::size_t ranks) noexcept {
  return std::min(exchanges, ranks);
}

}  // namespace tutti::engine
