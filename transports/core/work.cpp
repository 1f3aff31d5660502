#include "transports/core/work.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

namespace tutti {

void WorkState::complete(Status status) {
  std::vector<std::function<void(const Status&)>> callbacks;
  std::shared_ptr<void> owned;
  {
    std::lock_guard lock(callbacks_mutex_);
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
    owned.swap(owned_);
  }
  for (auto& callback : callbacks)
    driver_->defer([self = shared_from_this(), callback = std::move(callback)] { callback(self->status_); });
}

Work::Work(std::shared_ptr<WorkState> state) noexcept : state_(std::move(state)) {
  if (state_) state_->handles_.fetch_add(1, std::memory_order_relaxed);
}

Work::~Work() {
  if (!state_ || state_->handles_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state_->done() || state_->detachable_) return;
  // The memory is the caller's and is about to go: nobody may touch it after this.
  try {
    if (std::uncaught_exceptions() > 0)
      state_->driver_->abandon(*state_);
    else
      state_->driver_->drive(*state_, never);
  } catch (...) {  // a destructor has nobody to tell; the communicator keeps the cause
  }
}

void Work::check() const {
  if (const Status& status = state_->status(); !status.ok()) throw Error(status.cause(), state_->explain(status));
}

void Work::wait() const {
  if (!state_) return;
  if (!state_->done()) state_->driver_->drive(*state_, never);
  check();
}

bool Work::wait_for(Seconds limit) const {
  if (!state_) return true;
  if (!state_->done()) state_->driver_->drive(*state_, deadline_in(limit));
  if (!state_->done()) return false;
  check();
  return true;
}

const Work& Work::then(std::function<void(const Status&)> callback) const {
  if (!state_) {
    throw Error(Code::invalid, "then() on a default-constructed Work: there is no call to follow");
  }
  {
    std::lock_guard lock(state_->callbacks_mutex_);
    if (!state_->done()) {
      state_->callbacks_.push_back(std::move(callback));
      return *this;
    }
  }
  state_->driver_->defer([state = state_, callback = std::move(callback)] { callback(state->status()); });
  return *this;
}

}  // namespace tutti
