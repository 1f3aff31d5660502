// Waits for what another thread, or the kernel, does at an unknown time.
#pragma once

#include <chrono>
#include <thread>

namespace tutti::testing {

/// Calls `reached` until it returns true, for at most a minute. Returns the last result.
template <class Reached>
bool comes_true(Reached reached) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return reached();
}

}  // namespace tutti::testing
