// The clock that all time-outs use.
#pragma once

#include <time.h>

#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Seconds = std::chrono::duration<double>;

/// The longest wait.
inline constexpr Clock::duration for_ever = std::chrono::hours(24 * 365 * 50);

/// Converts seconds to a duration of Clock; longer times become for_ever.
inline Clock::duration duration_of(Seconds length) noexcept {
  return length < Seconds(for_ever) ? std::chrono::duration_cast<Clock::duration>(length) : for_ever;
}

/// The time point `after` from now, at most for_ever from now.
inline Deadline deadline_in(Seconds after) noexcept { return Clock::now() + duration_of(after); }

/// The current time, up to a few milliseconds in the past. Costs a fifth of Clock::now().
inline Clock::time_point about_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Clock::time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

inline constexpr Deadline never = Deadline::max();

}  // namespace tutti
