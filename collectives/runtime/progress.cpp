#include "collectives/runtime/progress.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "collectives/runtime/events.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds light_nap = 1ms;  // background thread's sleep while calls are frequent
constexpr int eager_wakes = 4;
constexpr auto a_moment = 50us;     // typical time from a call to its wait()
constexpr auto deep_after = 100ms;  // without calls, the background thread sleeps longer

}  // namespace

Progress::Progress(Transport& wire, ProgressHooks& hooks, Cores cores)
    : wire_(wire),
      hooks_(hooks),
      cores_(cores),
      crowding_(cores.all, cores.ranks, [this] { return runnable_.count(); }),
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
  turn();  // so that other ranks hear of an abort right before the end, and engines end before it
}

void Progress::release() {
  token_.release();
  if (queued_.load()) poke();  // a task was queued after the last check
  if (deferred_.any()) deferred_.run();
}

// ---- starting and deferring ------------------------------------------------------------------

bool Progress::launch_now(Startable& task) {
  if (queued_.load() || !token_.try_acquire()) return false;
  {
    const Holding token(*this);
    if (task.start()) turn();
    add(starts_, 1);
  }
  if (outstanding_.load() > 0 && poke_wanted_.load()) poke();
  return true;
}

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
  } catch (const Error& error) {  // out of kernel memory, or of the user's limit of watches
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

// Whether the work is still without a waiter after a moment in which its caller could have called wait().
bool Progress::is_left_alone() const {
  const auto starts = starts_.load();
  std::this_thread::sleep_for(a_moment);
  return unserved() && starts_.load() == starts;
}

void Progress::background() {
  const int watch_fd = wire_.fds().watch;
  std::int64_t seen = 0;
  bool serving = false;
  int eager = 0;  // remaining rounds in which it asks to be woken for each call, after calls without a waiter
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
      const bool retries = news_.load() && waiters_.load() == 0;  // the token is taken, maybe by who lacks a core
      if (!retries && (outstanding_.load() == 0 || waiters_.load() > 0))  // the transport or a waiter may cause work
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
