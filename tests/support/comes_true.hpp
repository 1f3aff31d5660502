// For what another thread, or the kernel, does in its own time.
#pragma once

#include <chrono>
#include <thread>

namespace tutti::testing {

/// Asks again and again, for at most a minute, whether it is so.
template <class Reached>
bool comes_true(Reached reached) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return reached();
}

}  // namespace tutti::testing
