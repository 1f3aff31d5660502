// CallbackQueue: runs the Python callbacks of a process group's futures one after the other.
#include "bindings/torch/callbacks.hpp"

#include <algorithm>
#include <chrono>

#include "bindings/torch/completer.hpp"
#include "tutti/threads.hpp"

namespace tutti::torch_binding {
namespace {

constexpr std::chrono::seconds linger{1};

thread_local CallbackQueue* current_queue = nullptr;

}  // namespace

CallbackQueue* CallbackQueue::current() noexcept { return current_queue; }

std::string CallbackQueue::name_within(std::span<const std::int64_t> members) const {
  std::string name = "callbacks";
  for (const Source& source : sources_) {
    const auto has = [&](std::int64_t member) {
      return std::ranges::find(source.members, member) != source.members.end();
    };
    name += "/" + (std::ranges::all_of(members, has) ? source.id : "~");
  }
  return name;
}

void CallbackQueue::start(Group& group) {
  try {
    start_thread("runs callbacks", [self = shared_from_this()] { self->run(); }).detach();
  } catch (const Error&) {
    Completer::instance().release(group);
    throw;
  }
  running_ = true;
}

void CallbackQueue::push(Callback callback) {
  Completer::instance().expect(*callback.group);
  const c10::intrusive_ptr<c10::ivalue::Future> after = callback.after;
  if (current_queue == this) {
    nested_.push_back(std::move(callback));
  } else {
    const std::lock_guard lock(mutex_);
    if (!running_) start(*callback.group);
    queue_.push_back(std::move(callback));
  }
  const auto wake = [self = shared_from_this()](c10::ivalue::Future&) {
    { const std::lock_guard lock(self->mutex_); }  // the thread now either waits or has yet to check: no lost wake-up
    self->changed_.notify_all();
  };
  after->addCallback(wake, false);
}

/// The first callback that may run. A callback whose future is not completed blocks the later ones, unless one of the
/// two belongs to a send or receive, which complete in any order.
std::deque<Callback>::iterator CallbackQueue::next() {
  bool blocked = false;
  for (auto one = queue_.begin(); one != queue_.end(); ++one) {
    if (one->after->completed() && !(one->ordered && blocked)) return one;
    blocked |= one->ordered;
  }
  return queue_.end();
}

void CallbackQueue::run() {
  current_queue = this;
  std::unique_lock lock(mutex_);
  while (true) {
    auto which = queue_.end();
    const bool found = changed_.wait_for(lock, linger, [&] { return (which = next()) != queue_.end(); });
    if (found) {
      run_one(lock, which);
    } else if (queue_.empty()) {
      running_ = false;
      return;
    }
  }
}

void CallbackQueue::run_one(std::unique_lock<std::mutex>& lock, std::deque<Callback>::iterator which) {
  Callback one = std::move(*which);
  queue_.erase(which);
  lock.unlock();
  Completer::instance().block_if_closed();
  one.run();
  const std::shared_ptr<Group> group = one.group;
  one = {};  // before release(), because destroying the callback may take the GIL
  Completer::instance().release(*group);
  lock.lock();
  for (; !nested_.empty(); nested_.pop_back()) queue_.push_front(std::move(nested_.back()));
}

}  // namespace tutti::torch_binding
