// A stream of the fake accelerator, and its events.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tutti::testing {

/// An event that was never recorded counts as passed.
struct FakeEvent {
  std::atomic<std::uint64_t> recorded{0}, passed{0};
  bool has_passed(std::uint64_t number) const noexcept { return passed.load(std::memory_order_acquire) >= number; }
  void pass(std::uint64_t number) noexcept {
    std::uint64_t before = passed.load();
    while (before < number && !passed.compare_exchange_weak(before, number, std::memory_order_acq_rel)) continue;
  }
  void await(std::uint64_t number) const noexcept;
};

/// A thread that does its tasks in order. It ends when the stream has been closed and no task is left.
class FakeStream : public std::enable_shared_from_this<FakeStream> {
 public:
  /// `before` runs before every task.
  static std::shared_ptr<FakeStream> make(int device, std::function<void()> before);
  void put(std::function<void()> task);
  void drain();  ///< waits for the tasks put so far
  void close() noexcept;
  int device() const noexcept { return device_; }

 private:
  FakeStream(int device, std::function<void()> before) : device_(device), before_(std::move(before)) {}
  void work();

  const int device_;
  const std::function<void()> before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t put_ = 0, done_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::testing
