// Work: the handle of an asynchronous call.
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
#include <utility>

#include "tutti/accelerator.hpp"
#include "tutti/clock.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// A reference-counted pointer. T provides retain() and release(). Threads: as std::shared_ptr.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(T& one) noexcept : to_(&one) { to_->retain(); }
  Ref(const Ref& other) noexcept : to_(other.to_) {
    if (to_ != nullptr) to_->retain();
  }
  Ref(Ref&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(to_, other.to_);
    return *this;
  }
  ~Ref() {
    if (to_ != nullptr) to_->release();
  }

  /// Makes a Ref of a reference that has already been counted; does not call retain().
  static Ref adopt(T& one) noexcept {
    Ref made;
    made.to_ = &one;
    return made;
  }

  T& operator*() const noexcept { return *to_; }
  T* operator->() const noexcept { return to_; }
  explicit operator bool() const noexcept { return to_ != nullptr; }

 private:
  T* to_ = nullptr;
};

class Work;
class WorkSet;
class WorkState;

/// Makes progress on unfinished work. Implemented by a rank's Context (collectives/runtime/context.hpp).
class Driver {
 public:
  virtual ~Driver() = default;
  /// Makes progress on all outstanding work until `work` is done or `until` has passed.
  virtual void drive(WorkState& work, Deadline until) = 0;
  /// Ends `work` with Code::aborted; returns once nothing accesses its buffers any more.
  virtual void abandon(WorkState& work) noexcept = 0;
  /// Queues `callback` to run on a thread that makes progress; never runs it inside this call.
  virtual void defer(std::function<void()> callback) = 0;
};

/// The state that the Work handles of a call share. It exists from the call's launch until the call is done and the
/// last handle is gone; then it may be reused for another call. All calls of a communicator that complete inside their
/// launch may share one state.
///
/// Threads: any, except for prepare(), complete() and look().
class WorkState {
 public:
  WorkState() noexcept = default;
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;
  virtual ~WorkState() = default;

  bool done() const noexcept { return reactions_.load(std::memory_order_acquire) == over(); }

  /// As done(), but first completes the work if a waiting thread has to do that. Called by an idle waiting thread.
  virtual bool settled() { return done(); }
  const Status& status() const noexcept { return status_; }  ///< valid only after done()

  /// Called once, by the thread that makes progress. Runs no callback inline: `then` callbacks are passed to
  /// Driver::defer.
  void complete(Status status);

  /// Makes progress only on what this work depends on, if that is known; this is cheaper than progress on all work. The
  /// caller holds the progress token, a lock. Returns true if there was progress.
  virtual bool look() { return false; }

  /// Makes later operations on the stream wait until this work is done. Must not be called after done(). Any thread.
  virtual void join(const Stream& /*stream*/) {}

  /// Implements Work::cancel(). Any thread, without the progress token.
  virtual bool take_back() { return false; }

  /// The full error text, with the collective, its number and the elapsed time. Called when an Error is made.
  virtual std::string explain(const Status& status) const { return std::string(status.text()); }

  /// Returns a Work that has succeeded; `driver` runs its callbacks.
  static Work ended(std::shared_ptr<Driver> driver);

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept { leave(1); }

 protected:
  /// Resets the state before a call: counts one handle, and one reference for the thread that completes it.
  void prepare(std::shared_ptr<Driver>&& driver) noexcept {
    driver_ = std::move(driver);
    detachable_ = false;
    if (!status_.ok()) status_ = {};
    owners_.store(handle + 1, std::memory_order_relaxed);
    reactions_.store(nullptr, std::memory_order_relaxed);
  }

  /// The library owns the call's memory, so that dropping the last handle does not wait.
  void detach_when_dropped() noexcept { detachable_ = true; }
  /// Eight bytes that live as long as the handles; holds the value of a scalar call.
  std::byte* cell() noexcept { return cell_; }

  /// Called when the last reference is gone.
  virtual void retire() noexcept { delete this; }
  /// For retire(): moves out the driver that was passed to prepare(). The caller must release it last.
  std::shared_ptr<Driver> take_driver() noexcept { return std::move(driver_); }

 private:
  friend class Work;
  friend class WorkSet;
  friend std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);
  struct Reaction {
    std::function<void(const Status&)> callback;
    Reaction* next = nullptr;
    bool at_once = false;  // runs inside complete(), so it must only record the result
  };
  /// A marker that differs from the address of every reaction.
  static Reaction* over() noexcept { return reinterpret_cast<Reaction*>(std::uintptr_t{1}); }
  static constexpr std::uint64_t handle = (std::uint64_t{1} << 32) + 1;  // a handle also counts as a reference

  void leave(std::uint64_t share) noexcept {
    // A sole owner needs no atomic decrement.
    if (owners_.load(std::memory_order_acquire) == share ||
        owners_.fetch_sub(share, std::memory_order_acq_rel) == share)
      retire();
  }
  void react(std::function<void(const Status&)> callback) { react(std::move(callback), false); }
  void react_at_once(std::function<void(const Status&)> note) { react(std::move(note), true); }
  void react(std::function<void(const Status&)> callback, bool at_once);
  void defer(std::function<void(const Status&)> callback);
  void drop_handle() noexcept;

  std::shared_ptr<Driver> driver_;
  std::atomic<Reaction*> reactions_{nullptr};  // a list, newest first; over() once the work is done
  std::atomic<std::uint64_t> owners_{0};       // low half: references; high half: handles
  bool detachable_ = false;
  alignas(8) std::byte cell_[8] = {};
  Status status_;
};

/// A call in flight. Copies are handles of the same call.
///
/// Threads: any. wait() may be called repeatedly and by several threads. Until done(), the buffers passed to the call
/// belong to the library. Dropping the last handle of unfinished work waits for it (during stack unwinding it is
/// aborted first), unless the library owns the memory; then the work is detached.
class [[nodiscard]] Work {
 public:
  Work() noexcept = default;  ///< a Work that has succeeded
  /// Owns the handle that `state.prepare()` has counted.
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

  /// Makes progress until the work is done. Throws tutti::Error if it failed.
  void wait() const;

  /// As wait(), for at most `limit`; returns false if the work is still running, and may be called again. A limit of 0
  /// or less checks once. Throws Error{invalid} if `limit` is NaN.
  bool wait_for(Seconds limit) const;

  /// For calls on device memory: makes later operations on the stream wait for the work, and returns at once. A failure
  /// found later is thrown by the next wait() and by the communicator's next call; the stream continues.
  void wait(const Stream& stream) const;

  bool done() const noexcept { return state_ == nullptr || state_->done(); }

  /// Cancels a recv() or recv_any() that has not been matched with a message: it ends with Code::aborted, its buffer
  /// belongs to the caller again, and a later recv receives the message. Returns false without effect if it has been
  /// matched, and for calls of other kinds. If several recvs have equal source, tag and buffer, cancels the oldest.
  bool cancel() const { return state_ != nullptr && !state_->done() && state_->take_back(); }

  /// Runs `callback` with the result once the work is done, on the thread that then makes progress; never inside this
  /// call. The callback must not wait for other work. An exception of any type from it is logged as an error and has no
  /// other effect: the work, the communicator and other callbacks continue.
  const Work& then(std::function<void(const Status&)> callback) const;

 protected:
  const std::byte* cell() const noexcept { return state_->cell_; }

 private:
  friend class WorkSet;
  friend std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);
  void check() const;  // throws if failed
  WorkState* state_ = nullptr;
};

/// Waits until one of `works` is done and returns its index; failed and default-constructed ones count as done. Makes
/// progress meanwhile. Returns nullopt once `limit` has passed (0: checks once), and at once if `works` is empty. If
/// the works belong to several jobs of this process, drives each job for about 20 ms in turn. Throws Error{invalid} if
/// `limit` is NaN. Any thread.
std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit);

/// The Work of a call with one result, which wait() returns. For a scalar collective the library owns the memory.
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
