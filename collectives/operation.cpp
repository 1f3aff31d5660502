#include "collectives/operation.hpp"

#include <cstdio>

#include "collectives/context.hpp"

namespace tutti {

std::uint32_t GroupState::begin(Signature call) {
  std::lock_guard lock(mutex_);
  if (++sequence_ == 0) ++sequence_;  // 0 is point to point
  const std::uint32_t sequence = sequence_;
  recent_[sequence % recent_.size()] = {sequence, call};
  return sequence;
}

void GroupState::completed(const CallRecord& call) {
  std::lock_guard lock(mutex_);
  if (call.sequence != 0 && static_cast<std::int32_t>(call.sequence - completed_.sequence) > 0) completed_ = call;
}

bool GroupState::begun(std::uint32_t sequence, Signature& call) const {
  std::lock_guard lock(mutex_);
  const CallRecord& record = recent_[sequence % recent_.size()];
  if (record.sequence != sequence || sequence == 0) return false;
  call = record.call;
  return true;
}

CallRecord GroupState::last_completed() const {
  std::lock_guard lock(mutex_);
  return completed_;
}

std::uint32_t GroupState::last_begun() const {
  std::lock_guard lock(mutex_);
  return sequence_;
}

Status GroupState::poison() const {
  std::lock_guard lock(mutex_);
  return poison_;
}

bool GroupState::poison_with(const Status& why) {
  std::lock_guard lock(mutex_);
  if (poisoned_.load(std::memory_order_relaxed)) return false;
  poison_ = why;
  poisoned_.store(true, std::memory_order_release);
  return true;
}

Operation::Operation(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, CallRecord call,
                     Deadline until)
    : WorkState(context), context_(context.get()), group_(std::move(group)), call_(call), until_(until) {}

void Operation::start() {
  context_->begun(std::static_pointer_cast<Operation>(shared_from_this()));
  if (group_->poisoned()) return finish(group_->poison());
  try {
    begin();
  } catch (const std::exception& error) {
    fail_here(error.what());
  }
}

void Operation::fail_here(const char* what) {
  const Status why =
      Status::failure(Code::resource,
                      describe(call_.call) + " could not go on on rank " + std::to_string(context_->rank()) + ": " +
                          what + ". Free memory there, or use smaller buffers.",
                      context_->rank());
  in_trouble(why);
  finish(why);
}

void Operation::finish(const Status& status) {
  const auto self = std::static_pointer_cast<Operation>(shared_from_this());
  // A failure seen here may be the consequence of one whose news has arrived but is not acted on yet.
  if (!status.ok() && !group_->poisoned()) return context_->postpone(self, status);
  ended_ = Clock::now();
  if (status.ok()) group_->completed(call_);
  context_->finished(self);
  complete(status.ok() ? status : group_->poison());
}

void Operation::in_trouble(const Status& why) { context_->trouble(group_, why); }

void Operation::finish_postponed(const Status& status) {
  group_->poison_with(status);
  finish(status);
}

std::string Operation::explain(const Status& status) const {
  const Group& group = group_->group();
  const double elapsed = Seconds(ended_ - launched_).count();
  char head[256];
  std::snprintf(head, sizeof head,
                "%s, call %u on rank %d of %d (world rank %d), failed after %.3f s: ", describe(call_.call).c_str(),
                call_.sequence, group.rank, group.size(), group.members[static_cast<std::size_t>(group.rank)], elapsed);
  return head + std::string(status.text());
}

}  // namespace tutti
