// Comparison of the ranks' clocks.
#pragma once

#include "engine/report/phases.hpp"
#include "engine/report/tree.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// The difference between a rank's clock and rank 0's: `ahead` is positive if the rank's clock is ahead, and is
/// accurate to +- `error`. It is set to 0 if it is within the error, so ranks on one host, which share a clock, have
/// equal times.
struct ClockOffset {
  Nanoseconds ahead = 0, error = 0;
};

/// Compares clocks along a Tree. Each rank asks its parent for the time several times and uses the reply with the
/// shortest round trip, assuming that the parent read its clock in the middle of the round trip (Cristian,
/// "Probabilistic clock synchronization", 1989). The rank adds its parent's offset from rank 0, and the parent's error.
/// All pairs of a round run at the same time, so the comparison takes as many rounds as the tree has. Clocks drift by
/// up to 0.1 ms per second, so ranks on several hosts have to repeat the comparison now and then. Collective; blocks.
ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now = steady_now);

/// The number of messages that `rank` of `size` sends and receives in compare_clocks(): at most 16 for each round.
constexpr int clock_messages(int rank, int size) noexcept { return 16 * Tree{size}.meetings(rank); }

}  // namespace tutti::engine
