// Work: a call of a process group, from its launch until its results are in the tensors.
#include "bindings/torch/work.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "bindings/torch/completer.hpp"
#include "bindings/torch/errors.hpp"
#include "bindings/torch/signals.hpp"
#include "tutti/log.hpp"

namespace tutti::torch_binding {
namespace {

using std::chrono::milliseconds;

std::optional<at::Device> cuda_device(const Request& request) {
  for (const Tensors* const list : {&request.inputs, &request.outputs})
    for (const at::Tensor& tensor : *list)
      if (tensor.defined() && tensor.is_cuda()) return tensor.device();
  return std::nullopt;
}

std::string title(const Group& group, const Request& request) { return group.name() + ":" + request.name; }

}  // namespace

Work::Work(std::shared_ptr<Group> group, Request request, std::uint64_t sequence)
    : c10d::Work(-1, request.type, title(*group, request).c_str(), request.inputs),
      group_(std::move(group)),
      request_(std::move(request)),
      sequence_(sequence),
      cuda_(cuda_device(request_)) {
  make_futures();
}

void Work::make_futures() {
  const auto tensors = c10::ListType::create(c10::TensorType::get());
  const auto type = request_.lists.size() > 1 ? c10::ListType::create(tensors) : tensors;
  std::vector<at::Device> devices;
  if (cuda_) devices.push_back(*cuda_);
  future_ = c10::make_intrusive<c10::ivalue::Future>(type, devices);
  result_future_ = c10::make_intrusive<c10::ivalue::Future>(c10::AnyEnumType::get());
}

void Work::record(const std::shared_ptr<RecordedProcessGroup>& group, int from, int to) {
  if (group == nullptr) return;
  const milliseconds limit = request_.timeout == c10d::kUnsetTimeout ? group_->timeout() : request_.timeout;
  ticket_ = FlightRecorder::instance().begin(group, {.type = request_.type,
                                                     .name = request_.name,
                                                     .inputs = request_.inputs,
                                                     .outputs = request_.outputs,
                                                     .sequence = sequence_,
                                                     .from = from,
                                                     .to = to,
                                                     .timeout = limit});
}

void Work::follow(std::vector<tutti::Work> parts, bool endless) {
  parts_ = std::move(parts);
  endless_ = endless;
  subscribe();
}

void Work::follow(Value<int> part) {
  from_any_ = part;
  follow({part}, true);
}

// Destroying an unused callback must not destroy a Work, so the callbacks have a raw pointer. One reference is counted
// for all callbacks together; the last callback that runs takes it over.
void Work::subscribe() {
  if (cuda_) complete_on_device();
  open_ = static_cast<int>(parts_.size()) + 1;
  Completer::instance().expect(*group_);
  c10::intrusive_ptr<Work> self = c10::intrusive_ptr<Work>::reclaim_copy(this);
  const auto one_less = [raw = self.release()](const Status&) {
    if (raw->open_.fetch_sub(1) == 1) Completer::instance().hand_over(c10::intrusive_ptr<Work>::reclaim(raw));
  };
  for (const tutti::Work& part : parts_) part.then(one_less);
  one_less({});
}

void Work::fail(std::exception_ptr why) {
  claimed_ = true;
  if (ticket_ != 0) FlightRecorder::instance().end(ticket_, false);
  finish(why);
  tell_futures(why);
  over_ = true;
}

/// Writes the results on a separate stream that waits for the call, so that the program's streams are not blocked.
void Work::complete_on_device() {
  const c10::impl::VirtualGuardImpl guard(cuda_->type());
  const c10::Stream side = guard.getStreamFromGlobalPool(*cuda_);
  for (const tutti::Work& part : parts_) part.wait({reinterpret_cast<void*>(side.native_handle()), cuda_->index()});
  const c10::StreamGuard on_side(side);
  write_results();
  for (const auto* const blocks : {&request_.sources, &request_.results})
    for (const Block& block : *blocks)
      if (block.is_packed()) block.packed().record_stream(side);
  on_device_.emplace(cuda_->type());
  on_device_->record(side);
  future_->markCompleted(value());
}

void Work::synchronize() {
  if (!on_device_) return;
  const c10::impl::VirtualGuardImpl guard(cuda_->type());
  on_device_->block(guard.getStream(*cuda_));
}

void Work::complete() {
  if (claimed_.exchange(true)) return;
  by_ = std::this_thread::get_id();
  std::exception_ptr failure = outcome();
  if (failure == nullptr && !cuda_) {
    try {
      write_results();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (ticket_ != 0) FlightRecorder::instance().end(ticket_, failure == nullptr, source_);
  finish(failure);
  tell_futures(failure);
  over_ = true;
  over_.notify_all();
}

std::exception_ptr Work::outcome() {
  try {
    for (const tutti::Work& part : parts_) part.wait();
    if (from_any_) source_ = from_any_->wait();
    return nullptr;
  } catch (const Error& error) {
    group_->note(error.code());
    if (error.code() == Code::timeout) group_->abort(std::string(request_.name) + " timed out");  // all communicators
    const milliseconds limit = request_.timeout == c10d::kUnsetTimeout ? group_->timeout() : request_.timeout;
    return translated(error, request_.name, limit);
  }
}

void Work::write_results() {
  for (const Block& result : request_.results) result.write_back();
  if (!request_.last) return;
  const at::AutoDispatchBelowAutograd guard;
  request_.last();
}

c10::IValue Work::value() const {
  return request_.lists.size() > 1 ? c10::IValue(request_.lists) : c10::IValue(request_.outputs);
}

// Runs callbacks. An exception of a callback is only logged.
void Work::tell_futures(const std::exception_ptr& failure) {
  try {
    const auto result = failure == nullptr ? c10d::WorkResult::SUCCESS : c10d::WorkResult::COMM_ERROR;
    result_future_->markCompleted(c10::IValue(static_cast<std::int64_t>(result)));
    if (failure != nullptr)
      future_->setErrorIfNeeded(failure);
    else if (!future_->completed())
      future_->markCompleted(value());
  } catch (const std::exception& error) {
    log(LogLevel::warn, std::string("a callback of ") + request_.name + " threw: " + error.what());
  }
}

int Work::sourceRank() const { return source_; }

bool Work::isCompleted() {
  if (over_) seen_ = true;
  return over_;
}

void Work::cancel() {
  for (const tutti::Work& part : parts_) static_cast<void>(part.cancel());
}

bool Work::wait(milliseconds limit) {
  if (cuda_) {
    if (over_ && exception_ != nullptr) std::rethrow_exception(exception_);
    synchronize();
    return true;
  }
  if (!over_) {
    if (limit == kNoTimeout)
      drive_without_limit();
    else if (!drive(limit))
      give_up(limit, "the wait is over, and the call goes on");
    await_completion();
  }
  seen_ = true;
  if (const std::exception_ptr failure = exception()) std::rethrow_exception(failure);
  return true;
}

void Work::drive_without_limit() {
  const milliseconds limit = endless_ ? group_->timeout() : kNoTimeout;
  if (drive(limit)) return;
  group_->note(Code::timeout);
  if (const auto communicator = group_->find())
    group_->abort("rank " + std::to_string(communicator->rank()) + " waited " + std::to_string(limit.count()) +
                  " ms for " + request_.name);
  give_up(limit, std::string("no peer has made the matching call") + group_over);
}

/// Returns true when all parts are done, false if the limit has passed.
bool Work::drive(milliseconds limit) {
  const Deadline until = limit == kNoTimeout ? never : deadline_in(Seconds(limit));
  for (const tutti::Work& part : parts_) {
    if (part.done()) continue;
    try {
      if (!wait_until(part, until)) return false;
    } catch (const Error&) {  // outcome() reports the error
    }
  }
  return true;
}

void Work::await_completion() {
  complete();
  if (by_.load() == std::this_thread::get_id()) return;  // this thread completes, or is in a callback of complete()
  over_.wait(false);
}

void Work::give_up(milliseconds limit, const std::string& why) const {
  std::rethrow_exception(backend_error(timed_out(request_.name, limit, why)));
}

}  // namespace tutti::torch_binding
