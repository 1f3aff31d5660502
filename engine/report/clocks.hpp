// Clocks of ranks, compared.
#pragma once

#include "collectives/api/communicator.hpp"
#include "engine/report/phases.hpp"

namespace tutti::engine {

/// How far a rank's clock is ahead of rank 0's: the truth is at most `error` away. It is 0 where that may be the truth,
/// so ranks of one host, which share their clock, see the same time.
struct ClockOffset {
  Nanoseconds ahead = 0, error = 0;
};

/// Asks rank 0 for its time a few times and takes the quickest answer, as if it had been read halfway (Cristian,
/// "Probabilistic clock synchronization", 1989). Collective; blocks; rank 0 serves the others one after the other.
/// Clocks drift apart by up to 0.1 ms in a second: compare them again now and then.
ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now = steady_now);

}  // namespace tutti::engine
