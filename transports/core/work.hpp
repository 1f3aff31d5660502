// Work: the handle of a call that has started.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/status.hpp"

namespace tutti {

class WorkState;

/// Who moves unfinished work forward; a context (see collectives/context.hpp).
class Driver {
 public:
  virtual ~Driver() = default;
  /// Drives everything outstanding until `work` is done or `until` has passed.
  virtual void drive(WorkState& work, Deadline until) = 0;
  /// Ends `work` early with Code::aborted; returns once nobody touches its buffers any more.
  virtual void abandon(WorkState& work) noexcept = 0;
  /// Runs `callback` soon, on a thread that drives; never from inside this call.
  virtual void defer(std::function<void()> callback) = 0;
};

/// The shared side of a Work. Backends make one per launch, and call complete() once.
class WorkState : public std::enable_shared_from_this<WorkState> {
 public:
  /// `driver` may be null when the work is complete before anyone can wait for it.
  explicit WorkState(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  virtual ~WorkState() = default;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  const Status& status() const noexcept { return status_; }  ///< only after done()
  Driver* driver() const noexcept { return driver_.get(); }

  /// Called once, by whoever drives. Runs nothing inline: `then` callbacks go to Driver::defer.
  void complete(Status status);

  /// What failed, in full: the collective, its number, elapsed time. Called when an Error is made.
  virtual std::string explain(const Status& status) const { return std::string(status.text()); }

  /// Keeps `owned` alive until the work is done, and lets a dropped handle detach.
  void own(std::shared_ptr<void> owned) {
    std::lock_guard lock(callbacks_mutex_);
    detachable_ = true;
    if (!done()) owned_ = std::move(owned);
  }

 private:
  friend class Work;
  std::shared_ptr<Driver> driver_;
  std::atomic<bool> done_{false};
  std::atomic<int> handles_{0};
  bool detachable_ = false;
  Status status_;
  std::shared_ptr<void> owned_;
  std::mutex callbacks_mutex_;
  std::vector<std::function<void(const Status&)>> callbacks_;
};

/// A call in flight. Copies are handles of the same work.
///
/// Threads: any. Waiting twice is harmless, and several threads may wait. Until done() the
/// buffers given to the call belong to the library. Dropping the last handle of unfinished
/// work waits for it (while an exception unwinds: aborts it first), unless the library owns
/// the memory, when it detaches.
class [[nodiscard]] Work {
 public:
  Work() noexcept = default;  ///< already done, successfully
  explicit Work(std::shared_ptr<WorkState> state) noexcept;
  Work(const Work& other) noexcept : Work(other.state_) {}
  Work(Work&& other) noexcept = default;
  Work& operator=(Work other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Work();

  /// Returns when the work is done; drives progress meanwhile. Throws tutti::Error if it failed.
  void wait() const;

  /// As wait(), for at most `limit`; false = still running, and nothing is lost.
  bool wait_for(Seconds limit) const;

  bool done() const noexcept { return !state_ || state_->done(); }

  /// Runs `callback` with the outcome once the work is done, on whichever thread drives the
  /// context then; at once it is only queued. It must not wait for other work.
  const Work& then(std::function<void(const Status&)> callback) const;

  const std::shared_ptr<WorkState>& state() const noexcept { return state_; }

 private:
  void check() const;  // throws if failed
  std::shared_ptr<WorkState> state_;
};

/// The Work of a scalar collective: wait() gives the result. The library owns the memory.
template <class T>
class [[nodiscard]] Value : public Work {
 public:
  Value(Work work, std::shared_ptr<const T> result) : Work(std::move(work)), result_(std::move(result)) {}
  T wait() const {
    Work::wait();
    return *result_;
  }

 private:
  std::shared_ptr<const T> result_;
};

}  // namespace tutti
