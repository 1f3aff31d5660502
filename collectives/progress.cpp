#include "collectives/progress.hpp"

#include <poll.h>
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
#include "transports/core/relax.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr auto yield_budget = 500us;         // how long a waiter yields before it sleeps
constexpr auto polled_yield_budget = 100ms;  // the same where a library moves only while it is asked whether it has
constexpr auto tick_interval = 20ms;
constexpr std::chrono::milliseconds light_nap = 1ms;  // of the background thread, while calls keep coming
constexpr auto deep_after = 100ms;                    // without a call
constexpr auto shortest_nap = 20us;                   // between two looks at what is polled
constexpr auto longest_nap = 1000us;

// True on a thread that holds the token of some context: it must not wait for that context.
thread_local const void* token_of_this_thread = nullptr;

int checked(int fd, const char* what) {
  if (fd >= 0) return fd;
  throw Error(Code::resource,
              std::string(what) + " failed: " + std::strerror(errno) + "; raise the limit of open files");
}

void watch_for(int epoll, int fd, std::uint32_t events) {
  if (fd < 0) return;
  epoll_event event{events, {.fd = fd}};
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
    : wire_(wire), hooks_(hooks), spins_(crowded ? 2 : 300), engines_(wire) {
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

void Progress::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  signal(background_event_.fd());
  thread_.join();
  if (!news_.load() || !try_acquire()) return;
  const Token token(*this);
  turn();  // an abort right before the end is told to the others too
}

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

// ---- engines beside the wire -----------------------------------------------------------------

class Progress::Joining final : public Startable {
 public:
  Joining(Progress& progress, std::shared_ptr<Engine> engine) : progress_(progress), engine_(std::move(engine)) {}
  void start() override { progress_.join(std::move(engine_)); }

 private:
  Progress& progress_;
  std::shared_ptr<Engine> engine_;
};

void Progress::add(std::shared_ptr<Engine> engine) { launch(std::make_shared<Joining>(*this, std::move(engine))); }

void Progress::join(std::shared_ptr<Engine> engine) {
  engines_.add(engine);
  try {
    watch_for(sleep_epoll_.fd(), engine->fds().sleep, EPOLLIN);
    watch_for(idle_epoll_.fd(), engine->fds().sleep, EPOLLIN | EPOLLONESHOT);
  } catch (const Error& error) {  // out of kernel memory, or of the user's watches
    log(LogLevel::warn, std::string("sleeping is given up for looking again and again: ") + error.what());
    engines_.poll_all();
  }
}

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
  moved |= engines_.progress();
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

void Progress::tick_if_due(Clock::time_point now) {
  if (now - last_tick_ < tick_interval) return;
  last_tick_ = now;
  hooks_.tick(now);
  engines_.drop_unused();
}

void Progress::wait_holding(const WorkState& work, Deadline until) {
  engines_.arm(false);
  nap_ = shortest_nap;
  auto quiet_since = Clock::time_point{};
  for (int idle = 0, busy = 0; !work.done() && !has_deferred_.load(std::memory_order_relaxed);) {
    const bool moved = turn();
    if (work.done()) return;
    idle = moved ? 0 : idle + 1;
    if (moved) nap_ = shortest_nap;
    if (idle < spins_ && ++busy < 1000) {
      if (!moved) relax();
      continue;
    }
    busy = 0;
    const auto now = Clock::now();
    if (now >= until) return;
    tick_if_due(now);
    if (idle < spins_) continue;
    if (idle == spins_) quiet_since = now;
    if (now - quiet_since < (engines_.polled() ? polled_yield_budget : yield_budget)) {
      sched_yield();
    } else {
      sleep(now, until);
      if (!engines_.polled()) idle = 0;  // else it naps again, a little longer, unless something has moved
    }
  }
}

// In the kernel until something rings, or for `limit`.
void Progress::sleep_at_most(std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec timeout{seconds.count(), (limit - seconds).count()};
  pollfd bell{sleep_epoll_.fd(), POLLIN, 0};
  if (::ppoll(&bell, 1, &timeout, nullptr) <= 0) return;
  std::array<epoll_event, 4> events;
  const int n = epoll_wait(sleep_epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i)
    if (events[static_cast<std::size_t>(i)].data.fd == wake_event_.fd()) drain(wake_event_.fd());
}

void Progress::sleep(Clock::time_point now, Deadline until) {
  if (engines_.arm(true)) {
    sleeping_.store(true);
    // Pairs with launch() and notice(), which store first and then look at sleeping_.
    if (!queued_.load() && !news_.load() && !has_deferred_.load()) {
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

// Moves what nobody waits for until nothing moves or a waiter comes. True: all is armed, sleep.
bool Progress::serve() {
  if (!try_acquire()) return true;
  const Token token(*this);
  bool moved = true;
  while (moved && waiters_.load() == 0 && !stop_.load()) moved = turn();
  tick_if_due(Clock::now());
  if (waiters_.load() > 0) return true;
  polling_.store(engines_.polled());
  if (!engines_.arm(true)) return false;
  engines_.sleep_fds([this](int fd) {  // each is heard of once, until somebody has looked
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.fd = fd;
    epoll_ctl(idle_epoll_.fd(), EPOLL_CTL_MOD, fd, &event);
  });
  return true;
}

void Progress::background() {
  const int watch_fd = wire_.fds().watch;
  std::uint64_t seen = 0;
  auto last_call = Clock::now();
  while (!stop_.load()) {
    if (const auto calls = launches_.load(); calls != seen) {
      seen = calls;
      last_call = Clock::now();
    }
    const bool unserved = outstanding_.load() > 0 && waiters_.load() == 0;
    const bool deep = Clock::now() - last_call > deep_after;
    auto timeout = light_nap;
    if (unserved || deep || news_.load() || has_deferred_.load()) {
      poke_wanted_.store(true);
      if (waiters_.load() == 0 && !serve()) continue;
      if (has_deferred_.load()) run_deferred();
      if (launches_.load() != seen || (news_.load() && waiters_.load() == 0)) continue;
      if (outstanding_.load() == 0)  // the others may still have something to say
        timeout = polling_.load() ? tick_interval : 1000ms;
      else if (!polling_.load())
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
