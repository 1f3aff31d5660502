#include "collectives/runtime/batch.hpp"

namespace tutti {

void Batch::prepare(std::shared_ptr<Driver> keeper, Spare& spare, std::uint64_t group, bool is_detached) {
  WorkState::prepare(std::move(keeper));
  if (is_detached) detach_when_dropped();
  spare_ = &spare;
  group_ = group;
  finished_ = false;
  seen_done_ = 0;
}

Collective& Batch::pack(std::span<const Collective> calls, const Group& group) {
  return packed_.emplace_back(calls, group).call();
}

void Batch::add(Operation& operation) {
  works_.emplace_back(operation);
  operations_.push_back(&operation);
}

// The callbacks run later, without the progress token, on any thread that drives. A thread that waits for the batch
// does not depend on them: look() detects the completion.
void Batch::follow() {
  open_ = works_.size();
  for (const Work& work : works_) work.then([self = Ref<Batch>(*this)](const Status&) { self->one_ended(); });
}

// `self` keeps the batch alive, since it may complete before all operations have started.
bool Batch::start() {
  const Ref<Batch> self(*this);
  for (Operation* const one : operations_) one->start();
  return true;
}

bool Batch::look() {
  while (seen_done_ < operations_.size() && operations_[seen_done_]->done()) ++seen_done_;
  if (seen_done_ < operations_.size()) return operations_[seen_done_]->look();
  finish();
  return true;
}

void Batch::join(const Stream& stream) {
  for (Operation* const one : operations_)
    if (!one->done()) one->join(stream);
}

const Operation* Batch::first_running() const noexcept {
  for (const Operation* const one : operations_)
    if (!one->done()) return one;
  return nullptr;
}

const Operation* Batch::first_failed() const noexcept {
  for (const Operation* const one : operations_)
    if (!one->status().ok()) return one;
  return nullptr;
}

std::string Batch::explain(const Status& status) const {
  const Operation* const failed = first_failed();
  return failed != nullptr ? failed->explain(status) : WorkState::explain(status);
}

void Batch::one_ended() {
  if (open_.fetch_sub(1) == 1) finish();
}

void Batch::finish() {
  if (finished_.exchange(true)) return;
  const Ref<Batch> self = Ref<Batch>::adopt(*this);
  const Operation* const failed = first_failed();
  if (failed == nullptr)
    for (Packing& one : packed_) one.unpack();
  complete(failed != nullptr ? failed->status() : Status());
}

void Batch::retire() noexcept {
  const std::shared_ptr<Driver> keeper = take_driver();  // must be released last
  operations_.clear();
  works_.clear();
  packed_.clear();
  spare_->give(this);
}

}  // namespace tutti
