// Deferred: callbacks to run without the progress token on a thread that drives progress.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace tutti {

/// A queue of callbacks. Any thread.
class Deferred {
 public:
  void push(std::function<void()> callback);
  bool any(std::memory_order order = std::memory_order_seq_cst) const noexcept { return any_.load(order); }
  /// Runs the queued callbacks. Exceptions are logged, since there is no caller to throw to.
  void run() noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_;
  std::atomic<bool> any_{false};
};

}  // namespace tutti
