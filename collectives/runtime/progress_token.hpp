// ProgressToken: which thread moves what a context has under way.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "transports/core/clock.hpp"
#include "transports/core/work.hpp"

namespace tutti {

/// At most one thread holds it. Taking a free one costs one atomic operation, and so does giving it back.
class ProgressToken {
 public:
  bool is_held() const noexcept { return holder_.load() != 0; }
  bool is_mine() const noexcept { return holder_.load(std::memory_order_relaxed) == this_thread(); }

  bool try_acquire() noexcept {
    std::uintptr_t nobody = 0;
    return holder_.load() == nobody && holder_.compare_exchange_strong(nobody, this_thread());
  }

  /// A full barrier: who came before it and was refused has left its trace for whoever looks afterwards.
  void release() {
    holder_.exchange(0);
    tell_watchers();
  }

  /// Blocks until the token is free, `work` is done, or `until` has passed.
  void watch(WorkState& work, Deadline until);

  /// The holder has completed works.
  void tell_watchers() {
    if (watchers_.load() > 0) wake_watchers();
  }

 private:
  static std::uintptr_t this_thread() noexcept { return static_cast<std::uintptr_t>(pthread_self()); }
  void wake_watchers();

  std::atomic<std::uintptr_t> holder_{0};  // a thread, or 0
  std::atomic<int> watchers_{0};           // threads in watch()
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace tutti
