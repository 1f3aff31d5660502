// Ticks: the processor's time stamp counter, the cheapest clock with a resolution below a microsecond. Also the real
// time.
#pragma once

#include <cstdint>

#include "tutti/clock.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

namespace tutti {

/// Reads the counter of this core. The counters of a host's cores agree wherever the kernel uses them for its own
/// clock. On other processors than x86 and aarch64 it is the monotonic clock in nanoseconds.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

/// Nanoseconds of the real-time clock.
inline std::uint64_t real_time() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tutti
