// The library's one clock.
#pragma once

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Seconds = std::chrono::duration<double>;

/// `after` from now; saturates, so an hour of hours is "never".
inline Deadline deadline_in(Seconds after) noexcept {
  const Seconds longest = std::chrono::hours(24 * 365 * 50);
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(after < longest ? after : longest);
}

inline constexpr Deadline never = Deadline::max();

}  // namespace tutti
