// Settling: how long cancellation waits for copies on a device's streams.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tutti/clock.hpp"
#include "tutti/log.hpp"

namespace tutti::staged {

/// Waits 50 ms at most for all calls of a communicator together, as the caller holds the progress token. A copy takes
/// about 1 ms, since nothing before it on the stream can block. A copy that takes longer may still use its memory.
class Settling {
 public:
  template <class Settled>
  bool wait_for(const Settled& settled) {
    while (!settled()) {
      if (Clock::now() >= until_) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }

 private:
  const Deadline until_ = Clock::now() + std::chrono::milliseconds(50);
};

/// Logs that `calls` calls did not settle.
inline void warn_of_unsettled(int calls, int world_rank) {
  if (calls == 0) return;
  log(LogLevel::warn,
      "a device does not get on, and may still use the buffers of " + std::to_string(calls) +
          (calls == 1 ? " call" : " calls") +
          ": leave that memory alone until the process ends (what owns it by CallOptions::keep is kept)",
      world_rank);
}

}  // namespace tutti::staged
