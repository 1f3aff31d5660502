#include "collectives/progress.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

#include "transports/core/log.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr auto yield_budget = 500us;  // how long a waiter yields before it sleeps
constexpr auto tick_interval = 20ms;
constexpr auto light_nap = 1ms;     // of the background thread, while calls keep coming
constexpr auto deep_after = 100ms;  // without a call

// True on a thread that holds the token of some context: it must not wait for that context.
thread_local const void* token_of_this_thread = nullptr;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

int checked(int fd, const char* what) {
  if (fd < 0)
    throw Error(Code::resource,
                std::string(what) + " failed: " + std::strerror(errno) + "; raise the limit of open files");
  return fd;
}

void watch_for(int epoll, int fd, std::uint32_t events) {
  if (fd < 0) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  checked(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

void signal(int event) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
}

void drain(int event) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event, &count, sizeof count);
}

int milliseconds_until(Clock::time_point now, Deadline until, Clock::duration longest) noexcept {
  const auto left = until == never ? longest : std::min<Clock::duration>(until - now, longest);
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

// Adds one while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { count_.fetch_sub(1); }

 private:
  std::atomic<int>& count_;
};

}  // namespace

Progress::Progress(Transport& wire, ProgressHooks& hooks, bool crowded)
    : wire_(wire), hooks_(hooks), spins_(crowded ? 2 : 300) {
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
  thread_ = std::thread([this] { background(); });
}

Progress::~Progress() { stop(); }

void Progress::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  signal(background_event_.fd());
  thread_.join();
}

// ---- the token -------------------------------------------------------------------------------

class Progress::Token {
 public:
  explicit Token(Progress& progress) : progress_(progress) {}
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token() { progress_.release(); }

 private:
  Progress& progress_;
};

bool Progress::try_acquire() {
  std::lock_guard lock(token_mutex_);
  if (token_held_) return false;
  token_held_ = true;
  token_of_this_thread = this;
  return true;
}

// Waits for the token, or for somebody else's turn to finish `work`. True: the token is ours.
bool Progress::acquire(const WorkState& work, Deadline until) {
  std::unique_lock lock(token_mutex_);
  if (token_held_) {
    watchers_.fetch_add(1);
    const auto may_go = [&] { return !token_held_ || work.done(); };
    // wait_until() with time_point::max() overflows in some clocks; an hour at a time is the same.
    token_free_.wait_until(lock, std::min(until, Clock::now() + 1h), may_go);
    watchers_.fetch_sub(1);
  }
  if (token_held_ || work.done()) return false;
  token_held_ = true;
  token_of_this_thread = this;
  return true;
}

void Progress::release() {
  token_of_this_thread = nullptr;
  {
    std::lock_guard lock(token_mutex_);
    token_held_ = false;
  }
  if (watchers_.load() > 0) token_free_.notify_all();
  if (queued_.load()) poke();  // launched after the last look
  if (has_deferred_.load()) run_deferred();
}

// ---- starting and deferring ------------------------------------------------------------------

void Progress::launch(std::shared_ptr<Startable> task) {
  {
    std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(task));
    queued_.store(true);
  }
  launches_.fetch_add(1);
  // Whoever fails to take the token leaves the task to the holder, who looks at the queue once more when it releases.
  if (token_of_this_thread != this && try_acquire()) {
    const Token token(*this);
    turn();
  } else if (sleeping_.load()) {
    signal(wake_event_.fd());
  }
  if (poke_wanted_.load()) poke();
}

void Progress::defer(std::function<void()> callback) {
  {
    std::lock_guard lock(deferred_mutex_);
    deferred_.push_back(std::move(callback));
    has_deferred_.store(true);
  }
  if (sleeping_.load()) signal(wake_event_.fd());
  poke();
}

void Progress::run_deferred() noexcept {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard lock(deferred_mutex_);
    callbacks.swap(deferred_);
    has_deferred_.store(false);
  }
  for (auto& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception& error) {  // it has no caller to tell
      log(LogLevel::error, std::string("a then() callback threw: ") + error.what());
    }
  }
}

void Progress::notice() noexcept {
  news_.store(true);
  if (sleeping_.load()) signal(wake_event_.fd());
  poke();
}

void Progress::poke() noexcept { signal(background_event_.fd()); }

// ---- driving ---------------------------------------------------------------------------------

bool Progress::turn() {
  bool moved = false;
  if (queued_.load()) {
    {
      std::lock_guard lock(queue_mutex_);
      starting_.swap(queue_);
      queued_.store(false);
    }
    for (const auto& task : starting_) task->start();
    starting_.clear();
    moved = true;
  }
  moved |= wire_.progress();
  if (news_.load(std::memory_order_relaxed) && news_.exchange(false)) {
    hooks_.news();
    moved = true;
  }
  if (moved && watchers_.fetch_add(0) > 0) {  // a full barrier: works were completed before this look
    std::lock_guard lock(token_mutex_);       // a watcher between its look and its wait must not miss this
    token_free_.notify_all();
  }
  return moved;
}

void Progress::drive(const WorkState& work, Deadline until) {
  if (token_of_this_thread == this)
    throw Error(
        Code::invalid,
        "wait() inside a callback of the same context would never return; use then(), or wait on another thread");
  {
    const Counted waiting(waiters_);
    while (!work.done() && (until == never || Clock::now() < until)) {
      if (!acquire(work, until)) continue;
      const Token token(*this);
      wait_holding(work, until);
    }
  }
  // What is still outstanding has lost its driver.
  if (outstanding_.load() > 0 && poke_wanted_.load()) poke();
}

void Progress::wait_holding(const WorkState& work, Deadline until) {
  wire_.arm(false);
  auto quiet_since = Clock::time_point{};
  for (int idle = 0, busy = 0; !work.done() && !has_deferred_.load(std::memory_order_relaxed);) {
    const bool moved = turn();
    if (work.done()) return;
    idle = moved ? 0 : idle + 1;
    if (idle < spins_ && ++busy < 1000) {
      if (!moved) relax();
      continue;
    }
    busy = 0;
    const auto now = Clock::now();
    if (now >= until) return;
    if (now - last_tick_ >= tick_interval) {
      last_tick_ = now;
      hooks_.tick(now);
    }
    if (idle < spins_) continue;
    if (idle == spins_) quiet_since = now;
    if (now - quiet_since < yield_budget) {
      sched_yield();
    } else {
      sleep(now, until);
      idle = 0;
    }
  }
}

void Progress::sleep(Clock::time_point now, Deadline until) {
  if (wire_.arm(true)) {
    sleeping_.store(true);
    // Pairs with launch() and notice(), which store first and then look at sleeping_.
    if (!queued_.load() && !news_.load() && !has_deferred_.load()) {
      std::array<epoll_event, 4> events;
      const int n = epoll_wait(sleep_epoll_.fd(), events.data(), static_cast<int>(events.size()),
                               milliseconds_until(now, until, tick_interval * 2));
      for (int i = 0; i < n; ++i)
        if (events[static_cast<std::size_t>(i)].data.fd == wake_event_.fd()) drain(wake_event_.fd());
    }
    sleeping_.store(false);
  }
  wire_.arm(false);
}

// ---- the background thread --------------------------------------------------------------------

// Moves what nobody waits for until nothing moves or a waiter comes. True: all is armed, sleep.
bool Progress::serve() {
  if (!try_acquire()) return true;
  const Token token(*this);
  bool moved = true;
  while (moved && waiters_.load() == 0 && !stop_.load()) moved = turn();
  const auto now = Clock::now();
  if (now - last_tick_ >= tick_interval) {
    last_tick_ = now;
    hooks_.tick(now);
  }
  return waiters_.load() > 0 || wire_.arm(true);
}

void Progress::background() {
  const int sleep_fd = wire_.fds().sleep, watch_fd = wire_.fds().watch;
  std::uint64_t seen = 0;
  auto last_call = Clock::now();
  while (!stop_.load()) {
    if (const auto calls = launches_.load(); calls != seen) {
      seen = calls;
      last_call = Clock::now();
    }
    const bool unserved = outstanding_.load() > 0 && waiters_.load() == 0;
    const bool deep = Clock::now() - last_call > deep_after;
    int timeout = static_cast<int>(light_nap.count());
    if (unserved || deep || news_.load() || has_deferred_.load()) {
      poke_wanted_.store(true);
      if (waiters_.load() == 0) {
        if (!serve()) continue;
        epoll_event event{};
        event.events = EPOLLIN | EPOLLONESHOT;
        event.data.fd = sleep_fd;
        if (sleep_fd >= 0) epoll_ctl(idle_epoll_.fd(), EPOLL_CTL_MOD, sleep_fd, &event);
      }
      if (has_deferred_.load()) run_deferred();
      if (launches_.load() != seen || (news_.load() && waiters_.load() == 0)) continue;
      timeout = outstanding_.load() > 0 ? static_cast<int>(tick_interval.count()) : 1000;
    } else {
      poke_wanted_.store(false);
    }
    std::array<epoll_event, 4> events;
    const int n = epoll_wait(idle_epoll_.fd(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == background_event_.fd()) drain(background_event_.fd());
      if (fd == watch_fd) wire_.watch();
    }
  }
}

}  // namespace tutti
