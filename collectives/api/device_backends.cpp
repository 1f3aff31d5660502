#include "collectives/api/device_backends.hpp"

#include <exception>
#include <utility>

#include "collectives/api/backends.hpp"
#include "transports/core/deferred_release.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti {

DeviceBackends::DeviceBackends(std::shared_ptr<Context> context, const Group& group, Talk talk)
    : context_(std::move(context)),
      generation_(fork_generation()),
      group_(group),
      id_(talk.id),
      names_(std::move(talk.names)),
      aside_(std::move(talk.aside)) {}

DeviceBackends::~DeviceBackends() {
  if (thread_.joinable()) thread_.join();
}

void DeviceBackends::begin(std::function<void(Outcome)> told) {
  told_ = std::move(told);
  thread_ = start_thread("makes the backend for device memory", [this] { talk(); });
}

// Tries the backends in order and stops at the first one that all ranks can create.
void DeviceBackends::talk() noexcept {
  try {
    for (const std::string& name : names_) {
      MadeBackend made = make_backend({name, 0, never_late}, *aside_, *context_, group_);
      outcome_.backend = std::move(made.backend);
      if (outcome_.backend) break;
      log(LogLevel::info, "device memory does not go by " + name + ": " + made.reason, context_->rank());
    }
  } catch (const Error& error) {
    outcome_.failure = Status::failure(error.code(), error.what(), error.culprit());
  } catch (const std::exception& error) {
    outcome_.failure = Status::failure(Code::resource, error.what(), context_->rank());
  }
  aside_.reset();
  context_->launch(*this);
  wait();  // for the end of start(): after this thread has ended, the members that start() uses may be destroyed
}

bool DeviceBackends::start() {
  std::exchange(told_, nullptr)(std::move(outcome_));
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
  return true;
}

void DeviceBackends::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_over_; });
}

void DeviceBackends::give_up() noexcept {
  Cause why;
  why.code = Code::aborted;
  why.culprit = why.reporter = context_->rank();
  why.group = id_;
  why.say("rank " + std::to_string(why.culprit) + " needs no backend for device memory any more");
  context_->fail(why);
}

// If the negotiation is over, its thread is about to end, and the destructor joins it without a long wait. Otherwise
// the thread may wait for other ranks, so a background thread runs the destructor.
void DeviceBackends::leave(std::unique_ptr<DeviceBackends> one) noexcept {
  if (!one) return;
  if (fork_generation() != one->generation_) {  // a forked child cannot join the parent's thread: leaks the object
    static_cast<void>(one.release());
    return;
  }
  const bool over = [&] {
    const std::lock_guard lock(one->mutex_);
    return one->is_over_;
  }();
  if (!over) one->give_up();
  if (!over || one->thread_.get_id() == std::this_thread::get_id()) deferred_release(std::move(one));
}

}  // namespace tutti
