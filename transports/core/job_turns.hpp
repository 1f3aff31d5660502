// How long a thread that waits for the works of several jobs drives one of them before the next.
#pragma once

#include "tutti/clock.hpp"

namespace tutti {

/// At first, and at most. Turns double, so that what another job has ready is seen after at most as long as was waited
/// already.
inline constexpr Seconds first_turn{50e-6}, longest_turn{0.02};

}  // namespace tutti
