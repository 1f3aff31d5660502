#include "transports/cudaipc/backend.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "transports/causes.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/layout.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"

namespace tutti::cudaipc {
namespace {

using namespace std::chrono_literals;

constexpr Seconds patience{3.0};  // time limit after a failure, for the stream and for other ranks that write here
constexpr auto look_again = 100us;

bool device_is_dead(Accelerator& accelerator, int device) noexcept {
  try {
    return !accelerator.failure(device).empty();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::span<const std::string_view> algorithms(Kind kind) noexcept {
  static constexpr std::string_view its_own[] = {""};
  if (kind == Kind::send || kind == Kind::barrier) return {};
  return its_own;
}

IpcBackend::IpcBackend(const BackendMeeting& meeting)
    : generation_(fork_generation()),
      world_rank_(meeting.group->members[static_cast<std::size_t>(meeting.group->rank)]),
      room_(std::make_unique<Room>(meeting)),
      quiet_(room_->accelerator(), room_->accelerator().make_event(room_->device())) {}

IpcBackend::~IpcBackend() {
  if (fork_generation() != generation_) {  // the device belongs to the parent
    keep_for_ever(std::move(room_));
    keep_for_ever(std::move(calls_));
    return;
  }
  IpcBackend::cancel(Status::failure(Code::aborted, "the communicator has gone"));
  while (!calls_.empty() && !IpcBackend::progress()) std::this_thread::sleep_for(look_again);
  if (restless_) keep_for_ever(std::move(room_));
}

Status IpcBackend::supports(const Collective& call, std::string_view algorithm) const {
  const auto no = [](const std::string& why) { return Status::failure(Code::unsupported, why); };
  if (Status able = check_algorithm_name("cudaipc", algorithm, call.kind, algorithms(call.kind)); !able.ok())
    return able;
  if (common_device(call).kind != Device::Kind::cuda) return no("cudaipc reaches CUDA memory only");
  return {};
}

void IpcBackend::check_device(const Collective& call) const {
  for (const Device& one : {call.in.device, call.out.device})
    if (one.kind == Device::Kind::cuda && one.index != room_->device())
      throw Error(Code::invalid, "a buffer is on cuda:" + std::to_string(one.index) + ", but rank " +
                                     std::to_string(world_rank_) +
                                     " takes part with cuda:" + std::to_string(room_->device()) +
                                     ": one device per rank; CUDA_VISIBLE_DEVICES says which it sees");
}

void IpcBackend::start(Call& call) {
  Playing& fresh = calls_.emplace_back();
  fresh.call = &call;
  call.tracker = this;
  try {
    check_device(call.what);
    fresh.play = std::make_unique<IpcCall>(*room_, call);
    fresh.end = Owned<Event>(room_->accelerator(), room_->accelerator().make_event(room_->device()));
  } catch (const Error& error) {
    return fail(failure(error.what(), error.code()));
  } catch (const std::exception& error) {
    return fail(failure(error.what(), Code::resource));
  }
  while (carry_on()) continue;
}

// Returns true if the host side of a call advanced.
bool IpcBackend::carry_on() {
  if (failed_) return false;
  const auto next = std::ranges::find(calls_, false, &Playing::enqueued);
  if (next == calls_.end()) return false;
  try {
    return step(*next);
  } catch (const Error& error) {
    fail(failure(error.what(), error.code()));
  } catch (const std::exception& error) {
    fail(failure(error.what(), Code::resource));
  }
  return true;
}

bool IpcBackend::step(Playing& playing) {
  if (!std::exchange(playing.begun, true)) {
    playing.play->begin();
    return true;
  }
  if (!playing.play->advance()) return false;
  if (!playing.play->enqueued()) return true;
  room_->accelerator().record(*playing.end, room_->stream());
  playing.enqueued = true;
  playing.pieces = room_->pieces();
  playing.call->enqueued(*playing.end);
  return true;
}

bool IpcBackend::progress() {
  if (calls_.empty()) return false;
  if (ending_) return look_for_end();
  if (failed_) return false;
  bool moved = false;
  while (carry_on()) moved = true;
  std::deque<Playing> done;
  try {
    while (!failed_ && !calls_.empty() && calls_.front().enqueued && room_->accelerator().query(*calls_.front().end)) {
      room_->have_read(calls_.front().pieces);
      done.push_back(std::move(calls_.front()));
      calls_.pop_front();
    }
  } catch (const Error& error) {
    fail(failure(error.what(), error.code()));
    moved = true;
  }
  moved |= !done.empty();
  // ended() of the last call may destroy this backend.
  for (Playing& one : done) one.call->ended({});
  return moved;
}

Status IpcBackend::failure(std::string_view what, Code code) const {
  Cause why;
  why.code = code;
  why.culprit = why.reporter = world_rank_;
  why.group = room_->group().id;
  why.say("rank " + std::to_string(world_rank_) + " (cuda:" + std::to_string(room_->device()) +
          ") could not go on with cudaipc: " + std::string(what));
  return Status(why);
}

// cancel(), which follows, ends the running calls.
void IpcBackend::fail(const Status& why) {
  if (std::exchange(failed_, true) || calls_.empty()) return;
  calls_.front().call->trouble(why);
}

// ---- the end ------------------------------------------------------------------------------------

// Nothing is enqueued after this, and no work on the stream waits for other ranks, so the stream is done soon.
void IpcBackend::cancel(const Status& why) noexcept {
  failed_ = true;
  if (ending_) return;
  if (calls_.empty()) return restless_ ? void() : room_->be_quiet();
  ending_.emplace(Ending{why, deadline_in(patience)});
  look_for_end();
}

// After an error of the runtime the stream may still be busy, except if the device has failed for good.
bool IpcBackend::stream_is_done() noexcept {
  Accelerator& accelerator = room_->accelerator();
  try {
    if (!ending_->marked) accelerator.record(*quiet_, room_->stream());
    ending_->marked = true;
    return accelerator.query(*quiet_);
  } catch (const std::exception&) {
    return device_is_dead(accelerator, room_->device());
  }
}

bool IpcBackend::look_for_end() noexcept {
  if (!ending_->is_quiet && stream_is_done()) {
    ending_->is_quiet = true;
    room_->be_quiet();
  }
  const bool quiet = ending_->is_quiet;
  const auto lends = [](const Playing& one) { return one.play && one.play->lends_result(); };
  const bool left = quiet && (std::ranges::none_of(calls_, lends) || room_->all_quiet());
  if (!left && Clock::now() < ending_->until) return false;
  if (!left)
    log(LogLevel::warn,
        (quiet ? "other ranks may still write to"
               : "what is on the stream of cuda:" + std::to_string(room_->device()) +
                     " does not end, and may still use") +
            std::string(" the buffers of ") + std::to_string(calls_.size()) +
            (calls_.size() == 1 ? " call" : " calls") +
            ": leave that memory alone until the process ends (what owns it by CallOptions::keep is kept)",
        world_rank_);
  restless_ = !quiet;
  const Status why = ending_->why;
  auto ended = std::exchange(calls_, {});
  ending_.reset();
  // ended() of the last call may destroy this backend.
  for (Playing& one : ended) {
    if (!left) one.call->abandoned();
    if (!quiet) keep_for_ever(std::move(one.play));  // with its mappings of other ranks' memory
    one.call->ended(why);
  }
  return true;
}

std::string IpcBackend::where(const Call& call) const {
  const auto found = std::ranges::find(calls_, &call, &Playing::call);
  if (!found->play) return {};
  if (ending_)
    return std::string("cudaipc: has failed, and waits for ") +
           (ending_->is_quiet ? "other ranks that may still write here" : "what is on the stream");
  return "cudaipc: " + found->play->where();
}

}  // namespace tutti::cudaipc
