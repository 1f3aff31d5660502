// How long a thread that waits for works of several jobs makes progress on one job before the next.
#pragma once

#include "tutti/clock.hpp"

namespace tutti {

/// The first turn, and the longest one. Turns double, so that a work of another job that is done is noticed after about
/// the time that the thread has waited already.
inline constexpr Seconds first_turn{50e-6}, longest_turn{0.02};

}  // namespace tutti
