#include "collectives/runtime/progress.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/runtime/counted.hpp"
#include "collectives/runtime/events.hpp"
#include "transports/core/host.hpp"
#include "transports/core/relax.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds light_nap = 1ms;  // background thread's sleep while calls are frequent
constexpr int eager_wakes = 4;
constexpr auto a_moment = 50us;     // typical time from a call to its wait()
constexpr auto deep_after = 100ms;  // after this time without calls the background thread sleeps longer

// How a thread waits.
constexpr int bare_looks = 400;         // polls by a waiter before it pauses between polls
constexpr int slow_looks = 16;          // replaces bare_looks where polls are slow, such as system calls
constexpr auto slow_look = 300ns;       // a poll that takes longer is slow
constexpr int paused_looks = 1000;      // further polls before it yields
constexpr int crowded_looks = 2;        // replaces these counts if ranks outnumber their cores: spinning delays others
constexpr int shared_looks = 200;       // replaces each count if other programs use the cores; 1 if polls are slow
constexpr int looks_by_the_clock = 64;  // polls between two readings of the clock
constexpr auto stall = 50us;            // time without progress before a waiter checks for other programs
constexpr int looks_at_work = 16;       // of so many polls, one polls all engines, the others only the awaited call
constexpr auto yield_budget = 500us;    // time spent yielding before the waiter sleeps
constexpr auto polled_yield_budget = 100ms;  // the same if an engine must be polled to make progress
constexpr auto shortest_nap = 20us;          // shortest sleep between two polls of an engine without descriptors
constexpr auto longest_nap = 1000us;

}  // namespace

Progress::Progress(Transport& wire, ProgressHooks& hooks, Cores cores)
    : wire_(wire),
      hooks_(hooks),
      cores_(cores),
      crowding_(cores.all, cores.room, cores.ranks, [this] { return runnable_.count(); }),
      engines_(wire) {
  crowding_.look(Clock::now());
  go_home();
  for (auto* const tasks : {&queue_, &starting_}) tasks->reserve(64);
  sleep_epoll_ = Descriptor(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
  idle_epoll_ = Descriptor(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
  wake_event_ = Descriptor(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"));
  background_event_ = Descriptor(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"));
  const Transport::Fds fds = wire_.fds();
  watch_for(sleep_epoll_.fd(), wake_event_.fd(), EPOLLIN);
  watch_for(sleep_epoll_.fd(), fds.sleep, EPOLLIN);
  watch_for(idle_epoll_.fd(), background_event_.fd(), EPOLLIN);
  watch_for(idle_epoll_.fd(), fds.watch, EPOLLIN);
  watch_for(idle_epoll_.fd(), fds.sleep, EPOLLIN | EPOLLONESHOT);
}

void Progress::start() {
  thread_ = start_thread("goes on with calls while the program computes", [this] { background(); });
}

// ---- the token -------------------------------------------------------------------------------

void Progress::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  signal(background_event_.fd());
  thread_.join();
  if (!(news_.load() || queued_.load()) || !token_.try_acquire()) return;
  const Holding token(*this);
  turn();  // sends an abort made right before the end to the other ranks, and destroys unused engines
}

void Progress::release() {
  token_.release();
  if (queued_.load()) poke();  // the background thread starts a task that was queued after the last check
  if (deferred_.any()) deferred_.run();
}

// ---- starting and deferring ------------------------------------------------------------------

void Progress::put_in_queue(Startable& task) {
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(&task);
    queued_.store(true);
  }
  turn_if_free();
  if (poke_wanted_.load()) poke();
}

void Progress::start_queued() {
  std::vector<std::shared_ptr<Engine>> joining;
  bool tidies = false;
  {
    const std::lock_guard lock(queue_mutex_);
    starting_.swap(queue_);
    joining.swap(joining_);
    left_.swap(leaving_);
    tidies = std::exchange(tidies_, false);
    queued_.store(false);
  }
  if (tidies) drop_engines();
  for (auto& engine : joining) join(std::move(engine));
  for (Startable* const task : starting_) task->start();
  add(starts_, static_cast<std::int64_t>(starting_.size()));
  starting_.clear();
}

void Progress::defer(std::function<void()> callback) {
  deferred_.push(std::move(callback));
  if (sleeping_.load()) signal(wake_event_.fd());
  poke();
}

void Progress::notice() noexcept {
  news_.store(true);
  if (sleeping_.load()) signal(wake_event_.fd());
  poke();
}

void Progress::poke() noexcept { signal(background_event_.fd()); }

// ---- engines besides the transport -------------------------------------------------------------

void Progress::add(std::shared_ptr<Engine> engine) {
  {
    const std::lock_guard lock(queue_mutex_);
    joining_.push_back(std::move(engine));
    queued_.store(true);
  }
  turn_if_free();
}

void Progress::drop_unused(std::vector<std::shared_ptr<Engine>> leaving) {
  {
    const std::lock_guard lock(queue_mutex_);
    std::ranges::move(leaving, std::back_inserter(leaving_));
    queued_.store(tidies_ = true);
  }
  turn_if_free();
}

// If the token is taken, its holder checks the queue again when it releases the token.
void Progress::turn_if_free() {
  if (token_.try_acquire()) {
    const Holding token(*this);
    turn();
  } else if (sleeping_.load()) {
    signal(wake_event_.fd());
  }
}

void Progress::join(std::shared_ptr<Engine> engine) {
  engines_.add(engine);
  try {
    watch_for(sleep_epoll_.fd(), engine->fds().sleep, EPOLLIN);
    watch_for(idle_epoll_.fd(), engine->fds().sleep, EPOLLIN | EPOLLONESHOT);
  } catch (const Error& error) {  // the kernel has no memory left, or the user has too many epoll watches
    log(LogLevel::warn, std::string("sleeping is given up for looking again and again: ") + error.what());
    engines_.poll_all();
  }
}

bool Progress::turn() {
  const bool queued = queued_.load();
  if (queued) start_queued();
  bool moved = engines_.progress() || queued;
  moved |= hear_news();
  if (moved) token_.tell_watchers();
  return moved;
}

// ---- how a thread waits: it spins, yields and sleeps while it drives ------------------------------
// Most polls advance only `work`; one of `looks_at_work` is a pass over all engines.
bool Progress::look(WorkState& work, int number) {
  if (number % looks_at_work == 0) return turn();
  const bool moved = work.look();
  if (moved) token_.tell_watchers();
  return moved;
}

void Progress::drive(WorkState& work, Deadline until) {
  if (token_.is_mine())
    throw Error(
        Code::invalid,
        "wait() inside a callback of the same context would never return; use then(), or wait on another thread");
  wait_shortly(work);
  if (!work.done()) wait_long(work, until);
  // Wakes the background thread if work is left without a waiter.
  if (outstanding_.load() > 0 && poke_wanted_.load()) poke();
}

// Returns how often a waiter polls in vain before its next stage. `alone` is the number for a core that no other thread
// uses.
int Progress::looks(int alone) const noexcept {
  if (cores_.ranks > cores_.room) return crowded_looks;
  if (crowding_.seen()) return looks_are_slow_ ? 1 : shared_looks;
  return alone;
}

// The fast path: most waits end here, after a few microseconds and without reading the clock.
void Progress::wait_shortly(WorkState& work) {
  if (!token_.try_acquire()) return;
  const Holding token(*this);
  engines_.arm(false);
  const int most = left_wait_.is(work, starts_.load()) ? 1 : looks(looks_are_slow_ ? slow_looks : bare_looks);
  for (int i = 1; i <= most && !work.done(); ++i) look(work, i);
}

void Progress::wait_long(WorkState& work, Deadline until) {
  const Counted waiting(waiters_);
  const ToldWait told(hooks_, work);
  while (!work.done() && (until == never || Clock::now() < until)) {
    if (token_.try_acquire()) {
      const Holding token(*this);
      wait_holding(work, until);
    } else {
      token_.watch(work, until);
    }
  }
}

bool Progress::tick_if_due(Clock::time_point now) {
  if (now - last_tick_ < tick_interval) return false;
  last_tick_ = now;
  hooks_.tick(now);
  drop_engines();
  return true;
}

// Spins for a number of polls without progress, then yields, then sleeps.
void Progress::wait_holding(WorkState& work, Deadline until) {
  engines_.arm(false);
  nap_ = shortest_nap;
  const bool continued = left_wait_.is(work, starts_.load());
  int idle = continued ? looks(paused_looks) : 0;  // polls without progress
  auto spinning_since = Clock::now(), stalled_since = spinning_since;
  auto quiet_since = continued ? left_wait_.quiet_since : spinning_since;
  for (int number = 0, judged = 0; !work.done() && !deferred_.any(std::memory_order_relaxed);) {
    const int spins = looks(paused_looks);
    const bool spinning = idle < spins;
    const bool moved = spinning ? look(work, ++number) : turn();
    if (spinning ? work.done() : work.settled()) return;
    // Progress after a yield or sleep is often a watchdog message; the waiter restarts only part of its spinning.
    idle = moved ? (idle > spins ? spins : 0) : idle + 1;
    if (moved) nap_ = shortest_nap;
    if (!moved && idle < spins) relax();
    if (idle < spins && number % looks_by_the_clock != 0) continue;
    const auto now = Clock::now();
    if (now >= until) return left_wait_.note(work, starts_.load(), idle < spins ? now : quiet_since);
    const int looks_since = number - std::exchange(judged, number);
    if (spinning && !moved && idle >= looks_since) judge_spin(now - spinning_since, looks_since, now);
    spinning_since = now;
    if (spinning && (moved || idle < looks_by_the_clock)) stalled_since = now;
    if (crowding_.seen() || now - stalled_since >= stall) crowding_.look(now);
    if (moved) stalled_since = now;
    if (tick_if_due(now) && !crowding_.seen()) go_home();
    if (idle < spins) continue;
    if (idle == spins) quiet_since = now;
    give_core_away(now, until, now - quiet_since);
    spinning_since = Clock::now();
  }
}

// Called after `looks` polls without progress, which took `time`. If that is a time slice or more, another thread had
// the core. Otherwise `time` shows if polls are slow.
void Progress::judge_spin(Clock::duration time, int looks, Clock::time_point now) {
  crowding_.spent(time, now);
  if (looks >= looks_at_work && time < Crowding::time_slice) looks_are_slow_ = time > looks * slow_look;
}

// Yields. Sleeps instead if the time for yielding is used up, or if other programs use the cores: these keep a yielded
// core for a time slice. After a sleep the waiter sleeps again unless its next poll makes progress.
void Progress::give_core_away(Clock::time_point now, Deadline until, Clock::duration quiet) {
  if (crowding_.seen() || quiet >= (engines_.polled() ? polled_yield_budget : yield_budget)) return sleep(now, until);
  sched_yield();
  const auto then = Clock::now();
  crowding_.spent(then - now, then);
}

// The scheduler places a woken thread next to its waker and rarely migrates threads that hardly sleep, which can
// leave many ranks on half of the cores. This moves the thread back to its core without changing its affinity mask.
void Progress::go_home() const {
  if (cores_.home >= 0 && sched_getcpu() != cores_.home) step_onto_core(cores_.home);
}

// Sleeps until a descriptor is ready, or for `limit`.
void Progress::sleep_at_most(std::chrono::nanoseconds limit) {
  std::array<epoll_event, 4> events;
  const int n = wait_for_events(sleep_epoll_.fd(), events, limit);
  for (int i = 0; i < n; ++i)
    if (events[static_cast<std::size_t>(i)].data.fd == wake_event_.fd()) drain(wake_event_.fd());
}

void Progress::sleep(Clock::time_point now, Deadline until) {
  if (engines_.arm(true)) {
    sleeping_.store(true);
    // Pairs with launch() and notice(), which store first and then read sleeping_.
    if (!queued_.load() && !news_.load() && !deferred_.any()) {
      std::chrono::nanoseconds limit = tick_interval * 2;
      if (engines_.polled()) {
        limit = nap_;
        nap_ = std::min<std::chrono::microseconds>(nap_ * 2, longest_nap);
      }
      if (until != never) limit = std::clamp<std::chrono::nanoseconds>(until - now, 0ns, limit);
      sleep_at_most(limit);
    }
    sleeping_.store(false);
  }
  engines_.arm(false);
}

// ---- the background thread --------------------------------------------------------------------

// Drives work without a waiter until nothing moves or a waiter comes. Returns true if all engines are armed and the
// thread may sleep.
bool Progress::serve() {
  if (!token_.try_acquire()) return true;
  const Holding token(*this);
  bool moved = true;
  while (moved && waiters_.load() == 0 && !stop_.load()) moved = turn();
  tick_if_due(Clock::now());
  if (waiters_.load() > 0) return true;
  polling_.store(engines_.polled());
  if (!engines_.arm(true)) return false;
  engines_.sleep_fds([this](int fd) {  // one-shot: reported once, until re-armed
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.fd = fd;
    epoll_ctl(idle_epoll_.fd(), EPOLL_CTL_MOD, fd, &event);
  });
  return true;
}

// Sleeps for `a_moment`, in which the caller may call wait(). Returns true if the work then still has no waiter and no
// other call was started.
bool Progress::is_left_alone() const {
  const auto starts = starts_.load();
  std::this_thread::sleep_for(a_moment);
  return unserved() && starts_.load() == starts;
}

void Progress::background() {
  const int watch_fd = wire_.fds().watch;
  std::int64_t seen = 0;
  bool serving = false;
  int eager = 0;  // remaining rounds in which this thread is woken for each call, after calls without waiters
  auto last_call = Clock::now();
  while (!stop_.load()) {
    if (const auto calls = starts_.load(); calls != seen) {
      seen = calls;
      last_call = Clock::now();
    }
    const bool deep = Clock::now() - last_call > deep_after;
    auto timeout = light_nap;
    serving = unserved() && (serving || is_left_alone());
    eager = serving ? eager_wakes : std::max(eager - 1, 0);
    if (eager > 0 || deep || news_.load() || deferred_.any()) {
      poke_wanted_.store(true);
      if (waiters_.load() == 0 && !serve()) continue;
      if (deferred_.any()) deferred_.run();
      if (starts_.load() != seen) continue;
      const bool retries = news_.load() && waiters_.load() == 0;          // the token's holder may lack a core
      if (!retries && (outstanding_.load() == 0 || waiters_.load() > 0))  // nothing to drive until a message or wake-up
        timeout = polling_.load() ? tick_interval : 1000ms;
      else if (!retries && !polling_.load())
        timeout = tick_interval;
    } else {
      poke_wanted_.store(false);
    }
    std::array<epoll_event, 4> events;
    const int n =
        epoll_wait(idle_epoll_.fd(), events.data(), static_cast<int>(events.size()), static_cast<int>(timeout.count()));
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == background_event_.fd()) drain(background_event_.fd());
      if (fd == watch_fd) wire_.watch();
    }
  }
}

}  // namespace tutti
