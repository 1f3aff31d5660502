// Modes: two other measurements than a call's time: its overlap with computation, and the cost of waiting.
#pragma once

#include "tools/bench/trials.hpp"

namespace tutti::bench {

/// Measures the time of a call that has a computation of equal length between its start and the wait. Extras, in the
/// order of extra_names(): medians in microseconds of the call alone and of the computation alone; the overlap in
/// percent as OSU defines it, 100 * (1 - (time - computation) / call), at least 0; time / (call + computation).
Row measure_overlap(Implementation& implementation, Trials& trials, const Sweep& sweep);

/// Measures the time that the last rank, which enters late, spends in the call. Extras: the CPU use of the waiting
/// ranks in percent of a core, as the median of the worst rank; microseconds from the late entry to the last exit of
/// any rank.
Row measure_late(Implementation& implementation, Trials& trials, const Sweep& sweep);

}  // namespace tutti::bench
