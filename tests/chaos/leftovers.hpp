// Leftovers: what a process holds before a scenario and must not hold any more after it.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace tutti::testing {

struct Holdings {
  std::size_t descriptors = 0, threads = 0;
  std::set<std::string> shared;  ///< names in /dev/shm
};

Holdings holdings();

/// Returns what this process holds beyond `before`, or "". Waits for two seconds that it goes, as threads end late.
std::string left_beyond(const Holdings& before);

}  // namespace tutti::testing
