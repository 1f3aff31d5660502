#include "transports/nccl/backend.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "transports/accelerators.hpp"
#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/host.hpp"
#include "transports/nccl/settings.hpp"
#include "tutti/fork.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti::nccl {
namespace {

using namespace std::chrono_literals;

constexpr Seconds abort_patience{3.0};  // for NCCL to abort, and then for the stream to finish
constexpr auto look_again = 100us;

}  // namespace

NcclBackend::NcclBackend(const BackendMeeting& meeting)
    : generation_(fork_generation()),
      group_(*meeting.group),
      world_rank_(group_.members[static_cast<std::size_t>(group_.rank)]),
      settings_(*meeting.settings),
      nccl_(library(*meeting.settings)),
      accelerator_(accelerator(*meeting.settings)),
      device_(device_of_rank(accelerator_, meeting.local_rank)),
      store_(meeting.store),
      scratch_(accelerator_, device_) {
  if (group_.size() > 1) {
    const Card own{nccl_.version, accelerator_.devices().at(static_cast<std::size_t>(device_)).uuid, host_name()};
    if (const std::string why = objection(meeting, own); !why.empty()) throw Error(Code::unsupported, why);
    if (meeting.wire != nullptr && settings_.of(nccl_order) == "agreed") order_ = LaunchOrder::of(*meeting.wire);
  }
  stream_ = Owned<Stream>(accelerator_, accelerator_.make_stream(device_, true));
  if (order_) order_->count(1);
}

NcclBackend::~NcclBackend() {
  if (fork_generation() != generation_) {  // the threads and the device belong to the parent
    static_cast<void>(comm_.release());
    keep_for_ever(std::move(scratch_));
    static_cast<void>(ending_.release());
    keep_for_ever(std::move(calls_));
    if (opening_.joinable()) opening_.detach();
    return;
  }
  if (order_) order_->count(-1);
  if (!calls_.empty()) NcclBackend::cancel(Status::failure(Code::aborted, "the communicator has gone"));
  while (ending_ && !look_for_end()) std::this_thread::sleep_for(look_again);
  end_everything();
  if (comm_) deferred_release(std::move(comm_));  // on another thread, since it frees device memory
}

// ---- the communicator ---------------------------------------------------------------------------

void NcclBackend::begin_opening() {
  if (opening_.joinable() || group_.size() == 1) return;
  opening_ = start_thread("connects NCCL", [this] { open(); });
}

void NcclBackend::open() noexcept {
  try {
    comm_ = open_comm({nccl_, accelerator_, device_, group_, store_, deadline_in(Seconds(settings_.connect_timeout))},
                      given_up_);
  } catch (const Error& error) {
    unopened_ = failure(error.what(), error.code());
  } catch (const std::exception& error) {
    unopened_ = failure(error.what(), Code::resource);
  }
  opening_done_.store(true, std::memory_order_release);
}

bool NcclBackend::opened() {
  if (group_.size() == 1) return true;
  if (!opening_done_.load(std::memory_order_acquire)) return false;
  if (comm_) return true;
  fail(unopened_);
  return false;
}

// ---- calls --------------------------------------------------------------------------------------

void NcclBackend::check_device(const Collective& call) const {
  for (const Device& one : {call.in.device, call.out.device})
    if (one.kind == Device::Kind::cuda && one.index != device_)
      throw Error(Code::invalid, "a buffer is on cuda:" + std::to_string(one.index) + ", but rank " +
                                     std::to_string(world_rank_) + " takes part with cuda:" + std::to_string(device_) +
                                     ": one device per rank; CUDA_VISIBLE_DEVICES says which it sees");
}

void NcclBackend::start(Call& call) {
  Playing& fresh = calls_.emplace_back();
  fresh.call = &call;
  call.tracker = this;
  try {
    check_device(call.what);
    begin_opening();
    fresh.end = Owned<Event>(accelerator_, accelerator_.make_event(device_));
    if (order_)
      fresh.place = order_->join({&group_, call.sequence, call.summary.bits, [this](const Status& why) { fail(why); }});
  } catch (const Error& error) {
    fail(failure(error.what(), error.code()));
  } catch (const std::exception& error) {
    fail(failure(error.what(), Code::resource));
  }
  while (launch_next()) continue;
}

// Returns true if a call was launched or advanced.
bool NcclBackend::launch_next() {
  if (failed_ || calls_.empty()) return false;
  try {
    if (launching_) {
      const Result state = comm_->state();
      if (state == in_progress) return false;
      if (state != success) return fail(failure_of(state)), true;
      Playing& last = calls_[launched_ - 1];
      if (last.asked.next_piece && last.asked.next_piece()) return true;
      launching_ = false;
      enqueued(last);
      return true;
    }
    if (launched_ == calls_.size() || !opened()) return false;
    return issue_front_of_unlaunched();
  } catch (const Error& error) {
    fail(failure(error.what(), error.code()));
  } catch (const std::exception& error) {
    fail(failure(error.what(), Code::resource));
  }
  return true;
}

bool NcclBackend::issue_front_of_unlaunched() {
  Playing& next = calls_[launched_];
  if (next.place && !order_->has_turn(*next.place)) return false;
  if (next.call->after.handle != nullptr) accelerator_.wait(*stream_, next.call->after);
  ++launched_;
  if (!comm_) {
    next.asked.scratch = issue_alone(next.call->what, accelerator_, *stream_);
    enqueued(next);
    return true;
  }
  if (next.place) order_->begun(*next.place);
  launching_ = true;
  next.asked =
      issue(next.call->what, {nccl_, comm_->get(), group_.rank, group_.size(), accelerator_, *stream_, scratch_});
  return true;
}

void NcclBackend::enqueued(Playing& playing) {
  if (playing.place) order_->launched(*playing.place);
  accelerator_.record(*playing.end, *stream_);
  playing.enqueued = true;
  playing.call->enqueued(*playing.end);
}

bool NcclBackend::progress() {
  if (ending_) return look_for_end();
  if (calls_.empty() || failed_) return false;
  bool moved = false;
  while (launch_next()) moved = true;
  std::deque<Playing> ended;
  moved |= collect(ended);
  // ended() of the last call may destroy this backend.
  for (Playing& one : ended) one.call->ended({});
  return moved;
}

bool NcclBackend::collect(std::deque<Playing>& ended) {
  if (failed_) return false;
  try {
    while (!calls_.empty() && calls_.front().enqueued && accelerator_.query(*calls_.front().end)) {
      if (calls_.front().place) order_->leave(*calls_.front().place);
      ended.push_back(std::move(calls_.front()));
      calls_.pop_front();
      --launched_;
    }
    if (launched_ == 0 || launching_ || !comm_) return !ended.empty();
    const Result state = comm_->state();
    if (state != success && state != in_progress) {
      fail(failure_of(state));
      return true;
    }
  } catch (const Error& error) {
    fail(failure(error.what(), error.code()));
    return true;
  }
  return !ended.empty();
}

// ---- failure ------------------------------------------------------------------------------------

Status NcclBackend::failure(std::string_view what, Code code) const {
  Cause why;
  why.code = code;
  why.culprit = code == Code::peer_lost ? -1 : world_rank_;
  why.reporter = world_rank_;
  why.group = group_.id;
  why.say("rank " + std::to_string(world_rank_) + " (cuda:" + std::to_string(device_) +
          ") could not go on with nccl: " + std::string(what));
  return Status(why);
}

Status NcclBackend::failure_of(Result state) const {
  return failure(describe(nccl_, state, "NCCL"), state == remote_error ? Code::peer_lost : Code::resource);
}

// cancel(), which follows, ends the running calls.
void NcclBackend::fail(const Status& why) {
  if (std::exchange(failed_, true) || calls_.empty()) return;
  calls_.front().call->trouble(why);
}

// Returns false if work is still on the stream.
bool NcclBackend::wait_for_stream() noexcept {
  try {
    const Owned<Event> end(accelerator_, accelerator_.make_event(device_));
    accelerator_.record(*end, *stream_);
    for (const Deadline until = deadline_in(abort_patience); !accelerator_.query(*end);
         std::this_thread::sleep_for(look_again))
      if (Clock::now() >= until) return false;
  } catch (const std::exception&) {  // the device has failed for good
  }
  return true;
}

// Call it only with exclusive use of comm_ and the stream. Returns false if NCCL or the device is still busy.
bool NcclBackend::end_everything() noexcept {
  given_up_ = true;
  if (opening_.joinable()) opening_.join();
  if (!comm_) return calls_.empty() || wait_for_stream();
  if (!failed_) return true;  // regular end
  const bool aborted = comm_->abort(abort_patience);
  comm_.reset();
  return aborted && wait_for_stream();
}

// The running calls leave the launch order at once, so that calls of other communicators can go on.
void NcclBackend::cancel(const Status& why) noexcept {
  failed_ = true;
  if (ending_ || calls_.empty()) return;
  launching_ = false;
  launched_ = 0;
  for (Playing& one : calls_)
    if (one.place) order_->leave(*std::exchange(one.place, nullptr));
  ending_ = std::make_unique<Ending>();
  ending_->why = why;
  const auto end = [this, mine = ending_.get()] {
    mine->quiet = end_everything();
    mine->over.store(true, std::memory_order_release);
  };
  try {
    ending_->thread = start_thread("ends NCCL", end);
  } catch (const std::exception&) {  // no thread could be created
    end();
  }
}

bool NcclBackend::look_for_end() noexcept {
  if (!ending_->over.load(std::memory_order_acquire)) return false;
  const auto ending = std::move(ending_);
  if (ending->thread.joinable()) ending->thread.join();
  auto ended = std::exchange(calls_, {});
  if (!ending->quiet) {
    log(LogLevel::warn,
        "NCCL does not let go of the buffers of " + std::to_string(ended.size()) +
            (ended.size() == 1 ? " call" : " calls") +
            ": leave that memory alone until the process ends (what owns it by CallOptions::keep is kept)",
        world_rank_);
    keep_for_ever(scratch_);
  }
  for (Playing& one : ended) {
    if (ending->quiet) continue;
    keep_for_ever(std::move(one.asked.scratch));
    one.call->abandoned();
  }
  // ended() of the last call may destroy this backend.
  for (Playing& one : ended) one.call->ended(ending->why);
  return true;
}

std::string NcclBackend::where(const Call& call) const {
  const auto found = std::ranges::find(calls_, &call, &Playing::call);
  if (ending_) return "nccl: has failed, and is being aborted";
  const auto before = static_cast<std::size_t>(found - calls_.begin());
  if (group_.size() > 1 && !opening_done_) return "nccl: its communicator is being made";
  if (found->enqueued) return "nccl: on the stream of cuda:" + std::to_string(device_);
  if (before < launched_) return "nccl: being launched";
  if (before > launched_) return "nccl: waits for " + std::to_string(before - launched_) + " calls before it";
  return "nccl: waits for its turn among the communicators of this device";
}

}  // namespace tutti::nccl
