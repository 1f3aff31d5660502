// ProgressToken: the lock of a context's progress engine.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "tutti/clock.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// Held by at most one thread, which drives progress. Acquire and release cost one atomic operation each without
/// contention.
class ProgressToken {
 public:
  bool is_held() const noexcept { return holder_.load() != 0; }
  bool is_mine() const noexcept { return holder_.load(std::memory_order_relaxed) == this_thread(); }

  bool try_acquire() noexcept {
    std::uintptr_t nobody = 0;
    return holder_.load() == nobody && holder_.compare_exchange_strong(nobody, this_thread());
  }

  /// A full barrier: what a thread stored before its try_acquire() failed is visible to the caller after release().
  void release() {
    holder_.exchange(0);
    tell_watchers();
  }

  /// Blocks until the token is free, `work` is done, or `until` has passed.
  void watch(WorkState& work, Deadline until);

  /// Called by the holder after operations have completed.
  void tell_watchers() {
    if (watchers_.load() > 0) wake_watchers();
  }

 private:
  static std::uintptr_t this_thread() noexcept { return static_cast<std::uintptr_t>(pthread_self()); }
  void wake_watchers();

  std::atomic<std::uintptr_t> holder_{0};  // thread id, or 0
  std::atomic<int> watchers_{0};           // threads in watch()
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace tutti
