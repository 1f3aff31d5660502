// Comparison of the ranks' clocks.
#pragma once

#include "engine/report/phases.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine {

/// How far a rank's clock is ahead of rank 0's, accurate to +- `error`. `ahead` is 0 if that is within the error, so
/// ranks on one host, which share a clock, have equal times.
struct ClockOffset {
  Nanoseconds ahead = 0, error = 0;
};

/// Asks rank 0 for its time several times and uses the answer with the shortest round trip, assuming that the time was
/// read in the middle of it (Cristian, "Probabilistic clock synchronization", 1989). Clocks drift by up to 0.1 ms per
/// second, so compare them again from time to time. Collective; blocks; rank 0 serves the ranks one after the other.
ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now = steady_now);

}  // namespace tutti::engine
