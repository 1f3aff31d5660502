// Modes: what else than a call's time is measured: how much of it computing hides, and what it costs to wait.
#pragma once

#include "tools/bench/trials.hpp"

namespace tutti::bench {

/// The time is that of a call with computing of equal length between its start and the wait for it. Extras, as
/// extra_names() says: medians in microseconds of the call and of the computing by themselves; 100 * (1 - (time -
/// computing) / call), as OSU defines overlap, at least 0; time / (call + computing).
Row measure_overlap(Implementation& implementation, Trials& trials, const Sweep& sweep);

/// The last rank enters late. The time is how long it is in the call. Extras: how much of a core the waiting ranks
/// burn, in percent, the worst rank's median; microseconds from the late entry to the last exit of any rank.
Row measure_late(Implementation& implementation, Trials& trials, const Sweep& sweep);

}  // namespace tutti::bench
