// Progress of a context. The thread that holds its lock, the progress token, advances all of its work. This is a
// waiting thread or, if none waits, the background thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/runtime/crowding.hpp"
#include "collectives/runtime/deferred.hpp"
#include "collectives/runtime/engines.hpp"
#include "collectives/runtime/progress_token.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/work.hpp"

namespace tutti {

/// A task to start with the token held: usually a launched operation.
class Startable {
 public:
  virtual ~Startable() = default;
  /// Called once per launch, with the token held. The object may be destroyed when it returns. Returns true if
  /// progress now would advance it.
  virtual bool start() = 0;
};

/// Callbacks of Progress into its owner. Called with the token held.
class ProgressHooks {
 public:
  virtual ~ProgressHooks() = default;
  virtual void news() = 0;                       ///< called after one or more calls of notice()
  virtual void tick(Clock::time_point now) = 0;  ///< about every 20 ms while a thread drives
  /// Called when a thread begins to wait for `work` after a short wait was not enough, and when it ends. Without the
  /// token; any thread.
  virtual void begin_wait(const WorkState& work) noexcept = 0;
  virtual void end_wait() noexcept = 0;
};

/// The progress engine of one context. One thread at a time holds the token and advances all outstanding work: a
/// thread in Work::wait(), or, for work without a waiter, the background thread, which blocks and never spins. A
/// waiter first spins, then yields, then sleeps in an epoll over everything that can wake it. If other programs use its
/// cores, it spins only for a moment and sleeps without yielding: the scheduler runs a sleeping thread soon after it is
/// woken, but a yielding thread only after a time slice.
class Progress {
 public:
  struct Cores {
    int ranks = 1;  ///< ranks of this job on this host
    int room = 1;   ///< cores that these ranks may use; if ranks outnumber them, a spinning rank delays the others
    int all = 1;    ///< cores of this host
    int home = -1;  ///< the core that a waiting thread moves back to, see go_home(); -1: none
  };
  /// Also moves the calling thread to `cores.home`.
  Progress(Transport& wire, ProgressHooks& hooks, Cores cores);
  ~Progress() { stop(); }

  /// Starts the background thread, which may call the hooks.
  void start();
  /// Stops the background thread. Nothing is driven afterwards.
  void stop();

  /// Starts `task` with the token held: now if the token is free, otherwise by its holder. Never blocks.
  void launch(Startable& task) {
    if (!launch_now([&task] { return task.start(); })) put_in_queue(task);
  }
  /// If the token is free and no task is queued, calls `start` (as Startable::start) and returns true; otherwise false.
  template <class Start>
  bool launch_now(Start start) {
    if (queued_.load() || !token_.try_acquire()) return false;
    {
      const Holding token(*this);
      if (start()) turn();
      add(starts_, 1);
    }
    if (outstanding_.load() > 0 && poke_wanted_.load()) poke();
    return true;
  }

  /// Drives progress until `work` is done or `until` has passed. Several threads may call it at the same time. Throws
  /// Error{invalid} if the calling thread holds the token.
  void drive(WorkState& work, Deadline until);

  /// Drives `engine` until Progress is its last owner, then destroys it with the token held. Any thread.
  void add(std::shared_ptr<Engine> engine);
  /// Releases `leaving` and destroys all engines without another owner: now, or when the token is released. Any thread.
  void drop_unused(std::vector<std::shared_ptr<Engine>> leaving = {});

  /// One pass over all engines, without a call of ProgressHooks::news(). Returns true if there was progress. Token
  /// held.
  bool look() { return engines_.progress(); }

  /// Makes the holder of the token call ProgressHooks::news(). Any thread, at any time.
  void notice() noexcept;

  /// Runs `callback` soon, without the token. Any thread.
  void defer(std::function<void()> callback);

  /// started() and finished() count the operations that are in progress. Token held.
  void started() noexcept { add(outstanding_, 1); }
  void finished() noexcept { add(outstanding_, -1); }

  bool holds_token() const noexcept { return token_.is_mine(); }
  bool on_background_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  /// Releases the token on every path.
  class Holding {
   public:
    explicit Holding(Progress& progress) : progress_(progress) {}
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    ~Holding() { progress_.release(); }

   private:
    Progress& progress_;
  };

  /// Reports a long wait to the hooks.
  class ToldWait {
   public:
    ToldWait(ProgressHooks& hooks, const WorkState& work) : hooks_(hooks) { hooks_.begin_wait(work); }
    ToldWait(const ToldWait&) = delete;
    ToldWait& operator=(const ToldWait&) = delete;
    ~ToldWait() { hooks_.end_wait(); }

   private:
    ProgressHooks& hooks_;
  };

  /// A wait that ended at its deadline. The next wait for the same work continues at the same stage and does not spin
  /// again, unless a call was started in between.
  struct LeftWait {
    const WorkState* work = nullptr;
    std::int64_t starts = 0;
    Clock::time_point quiet_since{};
    bool is(const WorkState& other, std::int64_t now) const noexcept { return work == &other && starts == now; }
    void note(const WorkState& left, std::int64_t now, Clock::time_point quiet) noexcept {
      *this = {&left, now, quiet};
    }
  };

  static constexpr auto tick_interval = std::chrono::milliseconds(20);

  // Written by the holder of the token only.
  static void add(std::atomic<std::int64_t>& count, std::int64_t what) noexcept {
    count.store(count.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
  }
  // True if work is outstanding and no thread drives it.
  bool unserved() const noexcept {
    return (outstanding_.load() > 0 || queued_.load()) && waiters_.load() == 0 && !token_.is_held();
  }

  bool hear_news() {
    const bool any = news_.load(std::memory_order_relaxed) && news_.exchange(false);
    if (any) hooks_.news();
    return any;
  }
  // Destroys engines without another owner. First handles pending causes, so that they are sent before links close.
  void drop_engines() {
    hear_news();
    left_.clear();
    engines_.drop_unused();
  }
  void join(std::shared_ptr<Engine> engine);
  void release();
  void start_queued();
  void turn_if_free();
  void put_in_queue(Startable& task);
  bool turn();
  bool look(WorkState& work, int number);
  void wait_shortly(WorkState& work);
  void wait_long(WorkState& work, Deadline until);
  void wait_holding(WorkState& work, Deadline until);
  int looks(int alone) const noexcept;
  void go_home() const;
  void judge_spin(Clock::duration time, int looks, Clock::time_point now);
  void give_core_away(Clock::time_point now, Deadline until, Clock::duration quiet);
  void sleep(Clock::time_point now, Deadline until);
  void sleep_at_most(std::chrono::nanoseconds limit);
  bool tick_if_due(Clock::time_point now);
  void background();
  bool is_left_alone() const;
  bool serve();
  void poke() noexcept;

  Transport& wire_;
  ProgressHooks& hooks_;
  const Cores cores_;
  const RunnableThreads runnable_;
  Crowding crowding_;                 // token held
  LeftWait left_wait_;                // token held
  bool looks_are_slow_ = false;       // token held
  Engines engines_;                   // token held
  std::chrono::microseconds nap_{};   // sleep between polls of engines without descriptors; token held
  std::atomic<bool> polling_{false};  // no descriptor wakes the background thread; it must poll

  ProgressToken token_;
  std::atomic<int> waiters_{0};  // threads in drive() for which a short wait was not enough

  std::mutex queue_mutex_;
  std::vector<Startable*> queue_, starting_;             // starting_: token held
  std::vector<std::shared_ptr<Engine>> joining_;         // driven from the next pass over the engines on
  std::vector<std::shared_ptr<Engine>> leaving_, left_;  // released in the next pass; left_: token held
  bool tidies_ = false;                                  // true: the next pass destroys engines without another owner
  std::atomic<bool> queued_{false};
  std::atomic<bool> news_{false};
  Deferred deferred_;
  std::atomic<std::int64_t> outstanding_{0}, starts_{0};
  Clock::time_point last_tick_{};

  Descriptor sleep_epoll_, wake_event_;       // used by the holder
  Descriptor idle_epoll_, background_event_;  // used by the background thread
  std::atomic<bool> sleeping_{false};         // the holder sleeps in sleep_epoll_
  std::atomic<bool> poke_wanted_{false};      // the background thread asks to be woken for new work
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tutti
