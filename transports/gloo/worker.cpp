#include "transports/gloo/worker.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

#include "transports/core/host.hpp"
#include "transports/gloo/calls.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

// The time that a rank waits, after a connection has ended, for another rank's report of a failure. The peer may have
// closed the connection because of that failure; then the peer is not the culprit.
constexpr auto patience = 20ms;

/// Blocks all signals in this thread while it exists. Threads that start meanwhile, also Gloo's, inherit the mask. So
/// the program's threads get the signals, and SIGPIPE does not end the process when a connection breaks.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

Descriptor make_bell() {
  Descriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell)
    throw Error(Code::resource, std::string("no descriptor for the backend gloo: ") + std::strerror(errno) +
                                    "; raise the limit of open files (ulimit -n)");
  return bell;
}

}  // namespace

Worker::Worker(const BackendMeeting& meeting) : group_(*meeting.group), bell_(make_bell()) {
  {
    const SignalsBlocked blocked;
    thread_ = start_thread("performs calls of gloo", [this, &meeting] { run(&meeting); });
  }
  std::unique_lock lock(mutex_);
  const auto connected = [this] { return !connecting_; };
  if (meeting.until == never)
    calm_.wait(lock, connected);
  else if (!calm_.wait_until(lock, meeting.until, connected))
    guard_->close();  // waits at the store have the same deadline
  calm_.wait(lock, connected);
  if (!unconnected_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(unconnected_);
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    guard_->close();
    wake_.notify_all();
  }
  thread_.join();
}

void Worker::run(const BackendMeeting* meeting) {
  if (!connect(*meeting)) return;
  serve();
  mesh_.reset();
}

bool Worker::connect(const BackendMeeting& meeting) {
  std::exception_ptr problem;
  try {
    mesh_ = std::make_unique<Mesh>(meeting, guard_);
  } catch (...) {
    problem = std::current_exception();
  }
  const std::lock_guard lock(mutex_);  // `meeting` is not used after this
  unconnected_ = problem;
  connecting_ = false;
  calm_.notify_all();
  return !problem;
}

void Worker::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || cancelled_ || done_ < calls_.size(); });
    if (stopping_ || cancelled_) return;
    const Call& call = *calls_[done_];
    playing_ = true;
    lock.unlock();
    const Status status = attempt(call);
    lock.lock();
    playing_ = false;
    calm_.notify_all();
    if (stopping_ || cancelled_) return;
    if (!status.ok()) {
      const auto ended = [this] { return stopping_ || cancelled_; };
      if (wake_.wait_for(lock, patience, ended)) return;
      trouble_ = status;
      tell();
      wake_.wait(lock, ended);
      return;
    }
    ++done_;
    tell();
  }
}

Status Worker::attempt(const Call& call) {
  try {
    // The salt contains everything that the ranks must agree on. If they do not agree, no message matches, and the
    // watchdog finds the mismatch.
    const std::uint64_t agreed = signature(call.what, group_.rank, group_.size()).bits;
    const auto number = static_cast<std::uint64_t>(std::ranges::find(gloo_algorithms(call.what.kind), call.algorithm) -
                                                   gloo_algorithms(call.what.kind).begin());
    gloo_play(call.what, call.algorithm, *mesh_, agreed * 31 + (std::uint64_t{call.sequence} << 8 | number));
    return {};
  } catch (const MeshClosed& error) {
    return failure(call, error.what(), -1);
  } catch (const PeerBroken& error) {
    return failure(call, error.what(), error.peer);
  } catch (const std::exception& error) {
    const int me = group_.members[static_cast<std::size_t>(group_.rank)];
    return Status::failure(Code::resource,
                           "rank " + std::to_string(me) + " could not go on with gloo's " +
                               std::string(name(call.what.kind)) + ": " + plain_text(error.what()),
                           me);
  }
}

Status Worker::failure(const Call& call, const std::string& text, int peer) const {
  const int me = group_.members[static_cast<std::size_t>(group_.rank)];
  const int culprit = peer < 0 ? -1 : group_.members[static_cast<std::size_t>(peer)];
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = culprit;
  why.reporter = me;
  why.group = group_.id;
  why.say("rank " + std::to_string(me) + " lost " +
          (culprit < 0 ? std::string("another rank") : "rank " + std::to_string(culprit)) + " in gloo's " +
          std::string(name(call.what.kind)) + " (" + text + "); look for why it ended in what it wrote");
  return Status(why);
}

void Worker::play(Call& call) {
  call.tracker = this;
  const std::lock_guard lock(mutex_);
  calls_.push_back(&call);
  wake_.notify_one();
}

Worker::News Worker::take_news() {
  const std::lock_guard lock(mutex_);
  quiet();
  has_news_.store(false, std::memory_order_relaxed);
  News news;
  news.ended.assign(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(done_));
  calls_.erase(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(done_));
  done_ = 0;
  if (!trouble_.ok() && !told_) {
    told_ = true;
    news.trouble = trouble_;
    news.troubled = calls_.front();
  }
  return news;
}

std::vector<Call*> Worker::cancel() {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  guard_->close();
  wake_.notify_all();
  calm_.wait(lock, [this] { return !playing_; });
  quiet();
  has_news_.store(false, std::memory_order_relaxed);
  std::vector<Call*> all(calls_.begin(), calls_.end());
  calls_.clear();
  done_ = 0;
  trouble_ = {};
  return all;
}

void Worker::tell() {
  has_news_.store(true, std::memory_order_release);
  if (!armed_ || rung_) return;
  rung_ = true;
  const std::uint64_t one = 1;
  // fails only if the bell is ringing already
  [[maybe_unused]] const auto written = ::write(bell_.fd(), &one, sizeof one);
}

void Worker::quiet() {
  if (!rung_) return;
  rung_ = false;
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(bell_.fd(), &count, sizeof count);
}

bool Worker::arm(bool on) {
  const std::lock_guard lock(mutex_);
  armed_ = on;
  if (!on) quiet();
  return !on || !has_news_.load(std::memory_order_relaxed);
}

std::string Worker::where(const Call& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(calls_, &call);
  const auto before = static_cast<std::size_t>(found - calls_.begin());
  const std::string name = "gloo/" + std::string(call.algorithm);
  if (before < done_) return name + " has ended on this rank";
  if (before > done_) return name + " waits for " + std::to_string(before - done_) + " calls before it";
  return name + " is under way";
}

}  // namespace tutti
