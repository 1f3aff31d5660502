// Deferred: what is to run soon, on a thread that drives, without the token.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace tutti {

/// Any thread.
class Deferred {
 public:
  void push(std::function<void()> callback);
  bool any(std::memory_order order = std::memory_order_seq_cst) const noexcept { return any_.load(order); }
  /// Runs what is there. What a callback throws is logged: it has no caller to tell.
  void run() noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_;
  std::atomic<bool> any_{false};
};

}  // namespace tutti
