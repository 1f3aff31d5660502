// Comparison of the ranks' clocks.
#pragma once

#include "engine/report/phases.hpp"
#include "engine/report/tree.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// How far a rank's clock is ahead of rank 0's, accurate to +- `error`. `ahead` is 0 if that is within the error, so
/// ranks on one host, which share a clock, have equal times.
struct ClockOffset {
  Nanoseconds ahead = 0, error = 0;
};

/// Compares clocks along a Tree: each rank asks its parent for its time several times and uses the answer with the
/// shortest round trip, assuming that the time was read in the middle of it (Cristian, "Probabilistic clock
/// synchronization", 1989). To what it finds it adds how far its parent's clock is ahead of rank 0's; the errors add up
/// as well. All pairs of a round ask at the same time, so this takes as many rounds as the tree has. Clocks drift by up
/// to 0.1 ms per second, so those of several hosts are compared again from time to time. Collective; blocks.
ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now = steady_now);

/// Messages that `rank` of `size` sends and receives in compare_clocks(): at most 16 for each round.
constexpr int clock_messages(int rank, int size) noexcept { return 16 * Tree{size}.meetings(rank); }

}  // namespace tutti::engine
