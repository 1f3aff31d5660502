#include "collectives/runtime/operation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "collectives/runtime/context.hpp"
#include "transports/accelerators.hpp"
#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/layout.hpp"

namespace tutti {

void Operation::prepare(Home&& home, Signature call, Clock::duration allowed, bool numbered, bool on_device) {
  WorkState::prepare(std::move(home.keeper));
  context_ = &home.context;
  group_ = &home.group;
  call_ = {0, call};
  numbered_ = numbered;
  on_device_ = on_device;
  launched_ = about_now();
  until_ = launched_ + allowed;
  asked = {};
  questions = 0;
  if (end_.handle != nullptr) end_ = {};
  joined_.store(false, std::memory_order_relaxed);
}

bool Operation::start() {
  return start_with([this] {
    if (numbered_) call_.sequence = group_->begin(call_.call);
    begin_record(*group_, entry(call_.sequence));
    if (group_->poisoned()) return begin_after_failure();
    numbered_ && !group_->gap().ok() ? finish(group_->gap()) : begin();
  });
}

// A call on a failed communicator still completes if all the messages that it needs were sent before the failure.
void Operation::begin_after_failure() {
  if (group_->takes_arrivals() && group_->gap().ok() && !on_device_ && takes()) {
    begin();
  } else {
    if (numbered_) group_->take_arrivals(false);  // backends count calls: after a gap they can start none
    finish(group_->poison());
  }
  if (!done() || numbered_) context_->settle(group_->shared_from_this());
}

// Returns true if progress on the transport would advance the operation.
bool Operation::leave_running(Ref<Operation> self) {
  running_ = true;
  context_->begun(std::move(self));
  return over_wire();
}

bool Operation::look() { return context_->wire().progress(); }

void Operation::fail_here(const char* what) {
  const Status why = Status::failure(Code::resource,
                                     describe(made()) + " could not go on on rank " + std::to_string(context_->rank()) +
                                         ": " + what + ". Free memory there, or use smaller buffers.",
                                     context_->rank());
  if (numbered_) group_->leave_gap(why);
  in_trouble(why);
  finish(why);
}

void Operation::finish(const Status& status) {
  // The failure may be a consequence of a cause that has arrived but has not been handled yet.
  if (!status.ok() && !group_->poisoned()) return context_->postpone(Ref<Operation>(*this), status);
  if (!status.ok()) return end(group_->poison());
  group_->completed(call_);
  end(status);
}

void Operation::finish_alone(const Status& status) { end(status); }

void Operation::end(const Status& status) {
  const Ref<Operation> self = running_ ? context_->finished(*this) : Ref<Operation>();
  if (!status.ok()) ended_ = Clock::now();
  end_record(status.ok(), !running_);
  complete(status);
  if (joined_.load()) let_streams_go();
  if (keep_) let_owner_go();
}

void Operation::end_record(bool ok, bool at_once) noexcept {
  Record* const mine = record();
  if (mine == nullptr) return;
  if (at_once && ok)
    Recorder::ended_at_once(*mine);
  else
    Recorder::ended(*mine, ok);
  record_.store(nullptr, std::memory_order_relaxed);
}

void Operation::keep(std::shared_ptr<const void> owner) noexcept {
  keep_ = std::move(owner);
  detach_when_dropped();
}

// Called last, since the owner's destructor may be slow. Device memory is released on another thread, because freeing
// it may wait for the device.
void Operation::let_owner_go() noexcept {
  std::shared_ptr<const void> owner = std::move(keep_);
  if (on_device_) deferred_release(std::move(owner));  // moved, so that no copy is destroyed here
}

void Operation::keep_owner_for_ever() noexcept {
  if (keep_) keep_for_ever(std::move(keep_));
}

// ---- streams ------------------------------------------------------------------------------------

void Operation::come_after(Accelerator& gpu, const Stream& stream) {
  if (!ready_ || (*ready_).device != stream.device) ready_ = Owned<Event>(gpu, gpu.make_event(stream.device));
  gpu.record(*ready_, stream);
}

// Pairs with end(), which completes the operation first and then reads joined_.
void Operation::join(const Stream& stream) {
  Accelerator& gpu = accelerator(context_->settings());
  joined_.store(true);
  const std::lock_guard lock(streams_mutex_);
  if (done()) return;
  if (end_.handle != nullptr) return gpu.wait(stream, end_);
  gates_.push_back(gpu.hold(stream));
}

void Operation::note_enqueued(const Event& end) {
  const std::lock_guard lock(streams_mutex_);
  end_ = end;
}

void Operation::let_streams_go() {
  const std::lock_guard lock(streams_mutex_);
  gates_.clear();
}

void Operation::in_trouble(const Status& why) { context_->trouble(group_->shared_from_this(), why); }

void Operation::finish_postponed(const Status& status) {
  group_->poison_with(status);
  finish(status);
}

std::string Operation::explain(const Status& status) const {
  const Group& group = group_->group();
  const double elapsed = Seconds(ended_ - launched_).count();
  char head[256];
  std::snprintf(head, sizeof head,
                "%s, call %u on rank %d of %d (world rank %d), failed after %.3f s: ", describe(made()).c_str(),
                call_.sequence, group.rank, group.size(), group.members[static_cast<std::size_t>(group.rank)], elapsed);
  const std::string opinion = context_->opinion(status);
  const std::string text = head + std::string(status.text());
  return opinion.empty() ? text : text + (text.ends_with('.') ? "" : ".") + " The records say: " + opinion;
}

// ---- CollectiveOperation ------------------------------------------------------------------------

void CollectiveOperation::prepare(Home&& home, Spare& spare, const Parts& parts) {
  prepare_all_but_call(std::move(home), spare, parts);
  take_over(parts);
}

void CollectiveOperation::prepare_all_but_call(Home&& home, Spare& spare, const Parts& parts) {
  Operation::prepare(std::move(home), parts.summary, parts.allowed, true, parts.on_device);
  spare_ = &spare;
  if (parts.route == nullptr) {
    router_ = parts.router;
    wanted_ = parts.wanted;
  }
}

// Copies the fields one by one, since most calls have no counts to move.
void CollectiveOperation::take_over(const Parts& parts) {
  Collective& call = parts.call;
  what.kind = call.kind;
  what.in = call.in;
  what.out = call.out;
  what.op = call.op;
  what.root = call.root;
  if (call.variable || what.variable) {
    what.in_counts = std::move(call.in_counts);
    what.out_counts = std::move(call.out_counts);
  }
  what.variable = call.variable;
  summary = parts.summary;
  recorded_ = parts.recorded;
  label = parts.label;
  if (tracker != nullptr) tracker = nullptr;  // an unneeded store slows the smallest calls by some percent
  route_ = parts.route;
}

void CollectiveOperation::keep_value() noexcept {
  const std::byte* const value = what.out.data != nullptr ? what.out.data : what.in.data;
  std::memcpy(cell(), value, size_of(what.in.dtype));
  if (what.in.data != nullptr) what.in.data = cell();
  if (what.out.data != nullptr) what.out.data = cell();
  detach_when_dropped();
}

void CollectiveOperation::retire() noexcept {
  const std::shared_ptr<Driver> keeper = take_driver();  // must be released last
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

bool CollectiveOperation::takes() const noexcept {
  const bool at_root = group().group().rank == what.root;
  if (only_root_takes(what.kind)) return at_root;
  return !at_root || (what.kind != Kind::broadcast && what.kind != Kind::scatter);
}

void CollectiveOperation::verify() {
  verification_ =
      std::make_unique<Verification>(context().wire(), group().group(), call().sequence, call().call,
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
  sequence = call().sequence;
  after = ready();
  give_to_backend();
}

void CollectiveOperation::give_to_backend() {
  algorithm = route_->algorithm;
  piece = route_->piece;
  route_->backend->start(*this);
}

RecordEntry CollectiveOperation::entry(std::uint32_t number) const noexcept {
  return {.what = Record::What::collective,
          .call = recorded_.bits,
          .bytes = std::max(what.in.bytes(), what.out.bytes()),
          .sequence = number,
          .how = route_ != nullptr ? route_->recorded : std::uint8_t{0},
          .is_stamped = route_ == nullptr || !route_->reports_waiting};
}

CollectiveOperation::Begun CollectiveOperation::start_unprepared(GroupState& group, const Parts& parts) {
  Begun begun;
  take_over(parts);
  sequence = group.begin(parts.summary);
  after = {};
  begin_record(group, entry(sequence));
  begun_ = &begun;
  try {
    give_to_backend();
  } catch (const std::exception&) {
    begun.thrown = std::current_exception();
  }
  begun_ = nullptr;
  if (begun.is_over) {
    group.completed({sequence, parts.summary});
    end_record(true, true);
  }
  return begun;
}

bool CollectiveOperation::carry_on(Home&& home, Spare& spare, const Parts& parts, const Begun& begun) {
  prepare_all_but_call(std::move(home), spare, parts);
  return start_as(sequence, [&] {
    if (begun.thrown) std::rethrow_exception(begun.thrown);
    if (begun.trouble) trouble(*begun.trouble);
    if (begun.failure) ended(*begun.failure);
  });
}

void CollectiveOperation::verified(const Status& status) {
  const Ref<Operation> self(*this);  // the call may end at once and hold the last handle of the communicator
  if (!status.ok()) return finish_unstarted(status);
  verified_ = true;
  start_those_ready(own_group());
}

bool CollectiveOperation::is_ready() {
  if (verified_ && route_ == nullptr) route_ = router_->route(what, wanted_);
  return verified_ && route_ != nullptr;
}

// Backends get the calls in launch order, although verifications may end in any order.
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
    if (!group.gap().ok()) {
      next->finish(group.gap());
      continue;
    }
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

void CollectiveOperation::trouble(const Status& why) {
  if (begun_ != nullptr)
    begun_->trouble = why;
  else
    in_trouble(why);
}

void CollectiveOperation::ended(const Status& status) {
  if (!status.ok()) tracker = nullptr;  // the object that it points to may be destroyed before this operation
  if (begun_ == nullptr)
    finish(status);
  else if (status.ok())
    begun_->is_over = true;
  else
    begun_->failure = status;
}

void CollectiveOperation::cancel(const Status& why) noexcept {
  if (verified_ && std::ranges::count(own_group().unstarted(), this) > 0) finish_unstarted(why);
}

std::string CollectiveOperation::where() const {
  if (route_ == nullptr) return "waits for all ranks to make such a call, and to find out who does it";
  const std::string where = Call::where();
  return where.empty() ? std::string(route_->backend->name()) : where;
}

}  // namespace tutti
