#include "tutti/work.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

#include "transports/core/checked.hpp"

namespace tutti {

Work WorkState::ended(std::shared_ptr<Driver> driver) {
  auto* const state = new WorkState;
  state->prepare(std::move(driver));
  Work work(*state);
  state->complete({});
  state->release();
  return work;
}

void WorkState::complete(Status status) {
  if (!status.ok()) status_ = std::move(status);
  Reaction* last_first = reactions_.exchange(over());
  Reaction* in_order = nullptr;
  while (last_first != nullptr) in_order = std::exchange(last_first, std::exchange(last_first->next, in_order));
  while (in_order != nullptr) {
    const std::unique_ptr<Reaction> reaction(std::exchange(in_order, in_order->next));
    reaction->at_once ? reaction->callback(status_) : defer(std::move(reaction->callback));
  }
}

void WorkState::defer(std::function<void(const Status&)> callback) {
  driver_->defer([self = Ref<WorkState>(*this), callback = std::move(callback)] { callback(self->status_); });
}

void WorkState::react(std::function<void(const Status&)> callback, bool at_once) {
  auto reaction =
      std::make_unique<Reaction>(Reaction{std::move(callback), reactions_.load(std::memory_order_acquire), at_once});
  while (reaction->next != over()) {
    if (!reactions_.compare_exchange_weak(reaction->next, reaction.get(), std::memory_order_acq_rel)) continue;
    static_cast<void>(reaction.release());
    return;
  }
  at_once ? reaction->callback(status_) : defer(std::move(reaction->callback));
}

void WorkState::drop_handle() noexcept {
  if (done()) return leave(handle);
  constexpr std::uint64_t only_handle = handle - 1;
  const bool last = owners_.fetch_sub(only_handle, std::memory_order_acq_rel) < 2 * only_handle;
  // The caller may free the buffers next, so the work has to end before this function returns.
  if (last && !detachable_ && !done()) {
    try {
      if (std::uncaught_exceptions() > 0)
        driver_->abandon(*this);
      else
        driver_->drive(*this, never);
    } catch (...) {  // a destructor cannot throw; the communicator keeps the cause
    }
  }
  release();
}

void Work::check() const {
  if (const Status& status = state_->status(); !status.ok()) throw Error(status.cause(), state_->explain(status));
}

void Work::wait() const {
  if (state_ == nullptr) return;
  if (!state_->done()) state_->driver_->drive(*state_, never);
  check();
}

void Work::wait(const Stream& stream) const {
  if (state_ == nullptr) return;
  if (!state_->done()) return state_->join(stream);
  check();
}

bool Work::wait_for(Seconds limit) const {
  const Seconds most = checked_seconds(limit, "wait_for: the limit");
  if (state_ == nullptr) return true;
  if (!state_->done()) state_->driver_->drive(*state_, deadline_in(most));
  if (!state_->done()) return false;
  check();
  return true;
}

const Work& Work::then(std::function<void(const Status&)> callback) const {
  if (state_ == nullptr) {
    throw Error(Code::invalid, "then() on a default-constructed Work: there is no call to follow");
  }
  state_->react(std::move(callback));
  return *this;
}

}  // namespace tutti
