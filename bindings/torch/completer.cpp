// Completer: threads that complete Works; see completer.hpp.
#include "bindings/torch/completer.hpp"

#include "bindings/torch/work.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti::torch_binding {
// A forked child makes a new instance: it does not have the threads, and the old mutex may be locked.
Completer& Completer::instance() {
  static std::mutex mutex;
  static Completer* one = nullptr;
  static std::uint32_t generation = 0;
  const std::lock_guard lock(mutex);
  if (one == nullptr || generation != fork_generation()) {
    one = new Completer;
    generation = fork_generation();
  }
  return *one;
}

void Completer::expect(Group& group) {
  const std::lock_guard lock(mutex_);
  if (threads_ == 0) {  // an error here reaches the caller; one in hand_over() would not
    start_thread("completes calls for torch", [this] { run(); }).detach();
    ++threads_;
  }
  ++group.held;
}

void Completer::hand_over(c10::intrusive_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    static_cast<void>(work.release());
    return;
  }
  queue_.push_back(std::move(work));
  arrived_.notify_one();
  if (static_cast<int>(queue_.size()) <= idle_ || threads_ == most_threads) return;
  try {
    start_thread("completes calls for torch", [this] { run(); }).detach();
    ++threads_;
  } catch (const Error& error) {  // the existing threads complete the work later
    log(LogLevel::warn, error.what());
  }
}

void Completer::release(Group& group) {
  const std::lock_guard lock(mutex_);
  --group.held;
  left_.notify_all();
}

// wait() releases the mutex. The thread must not end, because it would destroy Python objects that it holds.
void Completer::block_for_ever(std::unique_lock<std::mutex>& lock) {
  left_.wait(lock, [] { return false; });
}

void Completer::block_if_closed() {
  std::unique_lock lock(mutex_);
  if (closed_) block_for_ever(lock);
}

void Completer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    arrived_.wait(lock, [&] { return !queue_.empty(); });
    --idle_;
    if (closed_) block_for_ever(lock);
    c10::intrusive_ptr<Work> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const std::shared_ptr<Group> group = work->group();
    work->complete();
    work.reset();
    release(*group);
    lock.lock();
  }
}

bool Completer::drain(Group& group, Deadline until) {
  if (group.is_parents()) return true;
  std::unique_lock lock(mutex_);
  return left_.wait_until(lock, until, [&] { return group.held == 0; });
}

void Completer::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace tutti::torch_binding
