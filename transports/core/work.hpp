// Work: the handle of a call that has started.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transports/core/accelerator.hpp"
#include "transports/core/clock.hpp"
#include "transports/core/ref.hpp"
#include "transports/core/status.hpp"

namespace tutti {

class Work;
class WorkState;

/// Who moves unfinished work forward; a context (see collectives/runtime/context.hpp).
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

/// The shared side of a Work: one call, from its launch until it is done and its last handle has gone. Then it may be
/// used for another call, as nobody knows of it any more. Or all calls of a communicator that were over at once.
///
/// Threads: any, but prepare(), complete() and look().
class WorkState {
 public:
  WorkState() noexcept = default;
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;
  virtual ~WorkState() = default;

  bool done() const noexcept { return reactions_.load(std::memory_order_acquire) == over(); }

  /// done(), of what completes itself when whoever waits for it looks. Called where a waiter has nothing better to do.
  virtual bool settled() { return done(); }
  const Status& status() const noexcept { return status_; }  ///< only after done()

  /// Called once, by whoever drives. Runs nothing inline: `then` callbacks go to Driver::defer.
  void complete(Status status);

  /// Moves what this work waits for, and nothing else where that can be told apart: cheaper than a look at
  /// everything. Token held. True when something moved.
  virtual bool look() { return false; }

  /// What is put on the stream from here on waits until this is done. Not after done(). Any thread.
  virtual void join(const Stream& /*stream*/) {}

  /// See Work::cancel(). Any thread, without the token.
  virtual bool take_back() { return false; }

  /// What failed, in full: the collective, its number, elapsed time. Called when an Error is made.
  virtual std::string explain(const Status& status) const { return std::string(status.text()); }

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept { leave(1); }

 protected:
  /// Before a call: counts one handle, and one reference for whoever completes it.
  void prepare(std::shared_ptr<Driver>&& driver) noexcept {
    driver_ = std::move(driver);
    detachable_ = false;
    if (!status_.ok()) status_ = {};
    owners_.store(handle + 1, std::memory_order_relaxed);
    reactions_.store(nullptr, std::memory_order_relaxed);
  }

  /// Counts so many handles more, or drops handles and the reference of whoever completes.
  void add_handles(std::uint32_t n) noexcept { owners_.fetch_add(n * handle, std::memory_order_relaxed); }
  void drop_all(std::uint32_t handles) noexcept { leave(handles * handle + 1); }

  /// The memory of the call is the library's: a dropped handle does not wait.
  void detach_when_dropped() noexcept { detachable_ = true; }
  /// Eight bytes that live as long as the handles: where a scalar call has its value.
  std::byte* cell() noexcept { return cell_; }

  /// The last reference has gone.
  virtual void retire() noexcept { delete this; }
  /// For retire(): what prepare() was given, which the caller drops last.
  std::shared_ptr<Driver> take_driver() noexcept { return std::move(driver_); }

 private:
  friend class Work;
  friend std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);
  struct Reaction {
    std::function<void(const Status&)> callback;
    Reaction* next = nullptr;
  };
  /// What no reaction's address is.
  static Reaction* over() noexcept { return reinterpret_cast<Reaction*>(std::uintptr_t{1}); }
  static constexpr std::uint64_t handle = (std::uint64_t{1} << 32) + 1;  // a handle is a reference too

  void leave(std::uint64_t share) noexcept {
    // Alone, there is nobody to be counted against.
    if (owners_.load(std::memory_order_acquire) == share ||
        owners_.fetch_sub(share, std::memory_order_acq_rel) == share)
      retire();
  }
  void react(std::function<void(const Status&)> callback);
  void defer(std::function<void(const Status&)> callback);
  void drop_handle() noexcept;

  std::shared_ptr<Driver> driver_;
  std::atomic<Reaction*> reactions_{nullptr};  // last one first; over() once it is done
  std::atomic<std::uint64_t> owners_{0};       // references; above them, handles
  bool detachable_ = false;
  alignas(8) std::byte cell_[8] = {};
  Status status_;
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
  /// Takes over the handle that `state.prepare()` counted.
  explicit Work(WorkState& state) noexcept : state_(&state) {}
  Work(const Work& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->owners_.fetch_add(WorkState::handle, std::memory_order_relaxed);
  }
  Work(Work&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Work& operator=(Work other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Work() {
    if (state_ != nullptr) state_->drop_handle();
  }

  /// Returns when the work is done; drives progress meanwhile. Throws tutti::Error if it failed.
  void wait() const;

  /// As wait(), for at most `limit`; false = still running, and nothing is lost.
  bool wait_for(Seconds limit) const;

  /// For calls on device memory: what is put on the stream from here on waits until the work is done, and the caller
  /// goes on at once. A failure that has not been seen yet throws from a later wait() and from the communicator's next
  /// call; the stream goes on.
  void wait(const Stream& stream) const;

  bool done() const noexcept { return state_ == nullptr || state_->done(); }

  /// Takes back a recv() or recv_any() that has not met its message: it ends with Code::aborted, its buffer is the
  /// caller's, and the communicator goes on; the message, when it comes, waits for another recv. False, and nothing
  /// happens, where the message has been met, and for every other call. Of recvs with one source, tag and buffer the
  /// oldest is meant.
  bool cancel() const { return state_ != nullptr && !state_->done() && state_->take_back(); }

  /// Runs `callback` with the outcome once the work is done, on whichever thread drives the
  /// context then; at once it is only queued. It must not wait for other work.
  const Work& then(std::function<void(const Status&)> callback) const;

 protected:
  const std::byte* cell() const noexcept { return state_->cell_; }

 private:
  friend std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);
  void check() const;  // throws if failed
  WorkState* state_ = nullptr;
};

/// The number of one of `works` that is done; failed counts too, and so does a default-constructed Work. Drives
/// progress meanwhile. nullopt when `limit` has passed, and at once where there are none; 0 only looks. Those of
/// several jobs of this process are looked at in turns, some 20 ms each. Any thread.
std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);

/// The Work of a call that has one result: wait() gives it. Of a scalar collective the library owns the memory.
template <class T>
class [[nodiscard]] Value : public Work {
 public:
  explicit Value(Work work) noexcept : Work(std::move(work)) {}
  T wait() const {
    Work::wait();
    T result;
    std::memcpy(&result, cell(), sizeof result);
    return result;
  }
};

}  // namespace tutti
