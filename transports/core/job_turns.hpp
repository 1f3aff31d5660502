// How long a thread that waits for works of several jobs makes progress on one job before the next.
#pragma once

#include "tutti/clock.hpp"

namespace tutti {

/// The first turn, and the longest one. Each turn is twice as long as the one before, so the end of another job's work
/// is noticed after about as long as the thread has waited already.
inline constexpr Seconds first_turn{50e-6}, longest_turn{0.02};

}  // namespace tutti
