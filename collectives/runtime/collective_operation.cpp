#include "collectives/runtime/collective_operation.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/runtime/context.hpp"

namespace tutti {

void CollectiveOperation::prepare(Home&& home, Spare& spare, const Parts& parts) {
  Operation::prepare(std::move(home), parts.summary, parts.allowed, true, parts.on_device);
  spare_ = &spare;
  route_ = parts.route;
  if (route_ == nullptr) {
    router_ = parts.router;
    wanted_ = parts.wanted;
  }
  summary_ = parts.summary;
  take_over(parts.call);
}

// Field by field, as most calls have no counts.
void CollectiveOperation::take_over(Collective& call) {
  call_.kind = call.kind;
  call_.in = call.in;
  call_.out = call.out;
  call_.op = call.op;
  call_.root = call.root;
  if (call.variable || call_.variable) {
    call_.in_counts = std::move(call.in_counts);
    call_.out_counts = std::move(call.out_counts);
  }
  call_.variable = call.variable;
}

void CollectiveOperation::keep_value() noexcept {
  const std::byte* const value = call_.out.data != nullptr ? call_.out.data : call_.in.data;
  std::memcpy(cell(), value, size_of(call_.in.dtype));
  if (call_.in.data != nullptr) call_.in.data = cell();
  if (call_.out.data != nullptr) call_.out.data = cell();
  detach_when_dropped();
}

void CollectiveOperation::retire() noexcept {
  const std::shared_ptr<Driver> keeper = take_driver();  // goes last
  if (verification_) verification_.reset();
  spare_->give(this);
}

void CollectiveOperation::begin() {
  const bool verifies = context().verifies_each_call() && group().group().size() > 1;
  if (!verifies && route_ != nullptr) return start_call();
  verified_ = !verifies;
  own_group().unstarted().push_back(this);
  verifies ? verify() : start_those_ready(own_group());
}

void CollectiveOperation::verify() {
  verification_ =
      std::make_unique<Verification>(context().wire(), group().group(), call(),
                                     Verification::Outcome{[this](const Status& why) { in_trouble(why); },
                                                           [this](const Status& status) { verified(status); }});
  try {
    verification_->begin();
  } catch (...) {
    std::erase(own_group().unstarted(), this);
    throw;
  }
}

void CollectiveOperation::start_call() {
  Launch launch{call().sequence, summary_, route_->algorithm, route_->token};
  launch.ready = ready();
  route_->backend->start(call_, launch, *this);
}

bool CollectiveOperation::carry_on(const Begun& begun) {
  return start_as(begun.sequence, [&] {
    if (begun.thrown) std::rethrow_exception(begun.thrown);
    if (begun.trouble) trouble(*begun.trouble);
    if (begun.failure) return ended(*begun.failure);
    route_->backend->hand_over(call_, *this);
  });
}

void CollectiveOperation::verified(const Status& status) {
  const Ref<Operation> self(*this);  // a call that ends at once may be the last to hold the communicator
  if (!status.ok()) return finish_unstarted(status);
  verified_ = true;
  start_those_ready(own_group());
}

bool CollectiveOperation::is_ready() {
  if (verified_ && route_ == nullptr) route_ = router_->route(call_, wanted_);
  return verified_ && route_ != nullptr;
}

// Backends are given calls in their order, but verifications end in any.
void CollectiveOperation::start_those_ready(GroupState& group) {
  auto& unstarted = group.unstarted();
  while (!unstarted.empty()) {
    CollectiveOperation* const next = unstarted.front();
    try {
      if (!next->is_ready()) return;
    } catch (const Error& error) {
      next->finish_unstarted(Status::failure(error.code(), error.what(), error.culprit()));
      continue;
    }
    unstarted.pop_front();
    try {
      next->start_call();
    } catch (const std::exception& error) {
      next->fail_here(error.what());
    }
  }
}

void CollectiveOperation::finish_unstarted(const Status& why) {
  std::erase(own_group().unstarted(), this);
  if (route_ == nullptr) router_->give_up();
  finish(why);
}

bool CollectiveOperation::look() {
  const bool moved = route_ == nullptr ? Operation::look() : route_->backend->progress();
  return verification_ ? Operation::look() || moved : moved;
}

void CollectiveOperation::trouble(const Status& why) { in_trouble(why); }

void CollectiveOperation::cancel(const Status& why) noexcept {
  if (verified_ && std::ranges::count(own_group().unstarted(), this) > 0) finish_unstarted(why);
}

std::string CollectiveOperation::where() const {
  if (route_ == nullptr) return "waits for all ranks to make such a call, and to find out who does it";
  const std::string name(route_->backend->name()), where = route_->backend->where(call().sequence);
  return where.empty() ? name : where;
}

}  // namespace tutti
