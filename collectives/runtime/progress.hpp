// Progress: who drives a context. The token, how a waiter waits, and the background thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/runtime/deferred.hpp"
#include "collectives/runtime/engines.hpp"
#include "collectives/runtime/progress_token.hpp"
#include "transports/core/clock.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/work.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// Something to begin under the token: an operation that was just launched.
class Startable {
 public:
  virtual ~Startable() = default;
  /// Once for each launch. It may be gone when this returns. True: a turn now would carry on what it began.
  virtual bool start() = 0;
};

/// What the holder of the token does besides moving messages. Called with the token held.
class ProgressHooks {
 public:
  virtual ~ProgressHooks() = default;
  virtual void news() = 0;                       ///< notice() was called since
  virtual void tick(Clock::time_point now) = 0;  ///< every 20 ms or so while somebody drives
};

/// One per context. Exactly one thread at a time holds the token and moves everything that is
/// outstanding: a thread in Work::wait(), or, for work that nobody waits for, the background
/// thread, which blocks and never spins. A waiter spins for a while, yields for a while, then
/// sleeps in one epoll over everything that can wake it.
class Progress {
 public:
  struct Cores {
    bool crowded = false;  ///< more ranks on this host than cores: spinning takes one from whom one waits for
    int home = -1;  ///< where ranks fill the cores: the one that a waiter returns to now and then; -1: wherever it is
  };
  /// The calling thread goes home too.
  Progress(Transport& wire, ProgressHooks& hooks, Cores cores);
  ~Progress();

  /// Begins the background thread; the hooks may be called from here on.
  void start();
  /// Ends it; nobody drives any more.
  void stop();

  /// Starts `task` under the token: now if the token is free, else the holder does. Never blocks.
  void launch(Startable& task) {
    if (!launch_now(task)) put_in_queue(task);
  }
  /// Only if it is free; else false.
  bool launch_now(Startable& task);

  /// Drives until `work` is done or `until` has passed. Several threads may.
  void drive(WorkState& work, Deadline until);

  /// Drives `engine` too, until nobody else holds it; then it is destroyed, under the token. Any thread.
  void add(std::shared_ptr<Engine> engine);
  /// Drops them now, or when the token is released. Any thread.
  void drop_unused();

  /// Tells the holder that there is news. Any thread, any time.
  void notice() noexcept;

  /// Runs `callback` without the token, soon.
  void defer(std::function<void()> callback);

  /// Operations that did not end while they started, until they complete; called by their owner, token held.
  void started() noexcept { add(outstanding_, 1); }
  void finished() noexcept { add(outstanding_, -1); }

  bool holds_token() const noexcept { return token_.is_mine(); }
  bool on_background_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  class Holding;  // releases the token in every case

  // Only the holder of the token writes.
  static void add(std::atomic<std::int64_t>& count, std::int64_t what) noexcept {
    count.store(count.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
  }
  // Something is under way, and nobody is at it.
  bool unserved() const noexcept {
    return (outstanding_.load() > 0 || queued_.load()) && waiters_.load() == 0 && !token_.is_held();
  }

  bool hear_news() {
    const bool any = news_.load(std::memory_order_relaxed) && news_.exchange(false);
    if (any) hooks_.news();
    return any;
  }
  // Those that nobody else holds. Why they end is told before their links are closed.
  void drop_engines() {
    hear_news();
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
  void go_home() const;
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
  Engines engines_;                   // token
  std::chrono::microseconds nap_{};   // while something is polled; token
  std::atomic<bool> polling_{false};  // nothing rings the background thread when it should look

  ProgressToken token_;
  std::atomic<int> waiters_{0};  // threads in drive() for longer than a moment

  std::mutex queue_mutex_;
  std::vector<Startable*> queue_, starting_;      // the latter: token
  std::vector<std::shared_ptr<Engine>> joining_;  // to be driven from the next turn on
  bool tidies_ = false;                           // engines are to be dropped in the next turn
  std::atomic<bool> queued_{false};
  std::atomic<bool> news_{false};
  Deferred deferred_;
  std::atomic<std::int64_t> outstanding_{0}, starts_{0};
  Clock::time_point last_tick_{};

  Descriptor sleep_epoll_, wake_event_;       // of the holder
  Descriptor idle_epoll_, background_event_;  // of the background thread
  std::atomic<bool> sleeping_{false};         // the holder sleeps in sleep_epoll_
  std::atomic<bool> poke_wanted_{false};      // the background thread will not look by itself soon
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tutti
