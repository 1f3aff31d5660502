// Checks that a process sleeps while it waits, by the CPU time that it uses.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

namespace tutti::testing {

inline double cpu_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

constexpr int waits_watched = 5;
constexpr auto watched_wait = std::chrono::milliseconds(300);

/// Returns "" if the cheapest of several waits of `watched_wait` took less than `share` of a core. A process that does
/// not sleep pays in every wait; a virtual machine adds time of its host to some of them.
template <class Wait>
std::string expect_asleep(const std::string& what, double share, Wait wait) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < waits_watched; ++i) {
    const double before = cpu_seconds();
    wait();
    least = std::min(least, cpu_seconds() - before);
  }
  const double limit = share * std::chrono::duration<double>(watched_wait).count();
  return least < limit ? "" : what + " took " + std::to_string(least) + " s of CPU each time; ";
}

}  // namespace tutti::testing
