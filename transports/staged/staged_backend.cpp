#include "transports/staged/staged_backend.hpp"

#include <algorithm>
#include <bit>

#include "transports/causes.hpp"
#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/layout.hpp"
#include "transports/staged/settling.hpp"
#include "tutti/fork.hpp"

namespace tutti::staged {
StagedBackend::Side::Side(Accelerator& gpu, int device)
    : fetching(gpu, gpu.make_stream(device)), storing(gpu, gpu.make_stream(device)) {
  for (std::size_t slot = 0; slot < slot_count; ++slot) {
    fetched.emplace_back(gpu, gpu.make_event(device));
    stored.emplace_back(gpu, gpu.make_event(device));
  }
}

StagedBackend::StagedBackend(const Group& group, Host host)
    : group_(group), host_(std::move(host)), generation_(fork_generation()) {}

StagedBackend::~StagedBackend() {
  const bool own = generation_ == fork_generation();  // otherwise the device belongs to the parent
  if (!own) {
    keep_for_ever(std::move(calls_));
    keep_for_ever(std::move(inner_));
  }
  // Slices remain in staged_ if their copies have not settled: a device may still use the memory.
  if (!own || !staged_.empty()) {
    keep_for_ever(std::move(sides_));
    keep_for_ever(std::move(memory_));
  } else if (memory_.slots) {
    deferred_release(std::move(sides_));
    deferred_release(std::move(memory_));
  }
}

Status StagedBackend::supports(const Collective& call, std::string_view algorithm) const {
  constexpr std::string_view its_own[] = {""};  // the rules for cpu memory choose the algorithm for its slices
  if (Status able = check_algorithm_name(own_name, algorithm, call.kind, its_own); !able.ok()) return able;
  if (device_of(call).kind == Device::Kind::cpu)
    return Status::failure(Code::unsupported, "staged is for memory of devices");
  return {};
}

void StagedBackend::prepare() {
  if (inner_) return;
  Accelerator& gpu = host_.accelerator();
  half_bytes_ = std::max(host_.slot_bytes, static_cast<std::size_t>(group_.size()) * sizeof(double));
  const std::size_t bytes = 2 * slot_count * half_bytes_;
  memory_.slots = host_.allocate(bytes);
  try {
    memory_.pinned = gpu.pin(memory_.slots.get(), bytes);
  } catch (const Error&) {  // the device's driver cannot pin the transport's memory
    memory_.slots = gpu.allocate_pinned(bytes);
  }
  gpu_ = &gpu;
  inner_ = host_.backend();
}

std::byte* StagedBackend::half(std::size_t slot, bool out) const noexcept {
  return static_cast<std::byte*>(memory_.slots.get()) + (2 * slot + (out ? 1 : 0)) * half_bytes_;
}

StagedBackend::Side& StagedBackend::side_of(int device) {
  const auto found = sides_.find(device);
  return found != sides_.end() ? found->second : sides_.try_emplace(device, *gpu_, device).first->second;
}

void StagedBackend::start(Call& call) {
  prepare();
  auto made = std::make_unique<Playing>();
  made->call = &call;
  call.tracker = this;
  made->side = &side_of(device_of(call.what).index);
  made->source = Slicing::source(call.what);
  if (!has_own_counts(call.what))
    made->slicing = std::make_unique<Slicing>(call.what, group_.rank, group_.size(), host_.slot_bytes);
  calls_.push_back(std::move(made));
  if (!broken_) advance();
}

bool StagedBackend::progress() {
  if (!inner_) return false;
  const bool moved = inner_->progress();
  if (calls_.empty() || broken_) return moved;
  return advance() || moved;
}

// Only polling shows that a copy has ended. While one slice is on the host, the copy of the next one needs no polling.
bool StagedBackend::polled() const noexcept {
  if (calls_.empty() || broken_) return inner_ && inner_->polled();
  const bool next_is_fetched = !plays_ && playing_ < staged_.size() && staged_[playing_].fetching;
  return waits_ || next_is_fetched || playing_ > 0 || (inner_ && inner_->polled());
}

// Oldest slices first: a finished slice frees its slot for the next one.
bool StagedBackend::advance() {
  bool moved = false;
  waits_ = false;
  try {
    for (int turns = 0; turns < 4 && !broken_; ++turns) {
      bool any = retire();
      any |= store();
      any |= play();
      any |= fetch();
      if (!any) break;
      moved = true;
    }
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::exception& error) {
    fail(Code::resource, error.what());
  }
  return moved;
}

// ---- from the device ----------------------------------------------------------------------------

bool StagedBackend::fetch() {
  if (fetching_ == calls_.size() || staged_.size() == slot_count) return false;
  Playing& playing = *calls_[fetching_];
  if (!playing.slicing) return false;  // play() determines the number of slices
  if (!is_ready(playing)) return false;
  if (playing.fetched == 0) begin(playing);
  Staged& one = staged_.emplace_back();
  one.of = &playing;
  one.side = playing.side;
  one.number = playing.fetched;
  one.slice = playing.slicing->slice(playing.fetched);
  one.slot = slices_++ % slot_count;
  for (const Piece& piece : one.slice.in)
    gpu_->copy(*playing.side->fetching, half(one.slot, false) + piece.host, playing.source + piece.device, piece.bytes);
  if (!one.slice.in.empty()) {
    gpu_->record(*playing.side->fetched[one.slot], *playing.side->fetching);
    one.fetching = true;
  }
  if (playing.is_last(playing.fetched++)) ++fetching_;
  return true;
}

// The host waits for the caller's stream. If a stream of this backend waited and the caller's stream were stuck, later
// calls' copies and cancellation would be stuck too.
bool StagedBackend::is_ready(Playing& playing) {
  if (!playing.is_ready) playing.is_ready = playing.call->after.handle == nullptr || gpu_->query(playing.call->after);
  waits_ |= !playing.is_ready;
  return playing.is_ready;
}

void StagedBackend::begin(Playing& playing) {
  const Stream& stream = *playing.side->fetching;
  const Collective& made = playing.call->what;
  const bool moves_about = made.variable && overwrites_input(made) && made.in_counts != made.out_counts;
  if (!moves_about) return;
  playing.copied = take_scratch(*playing.side, made.in.bytes());
  playing.source = static_cast<const std::byte*>(playing.copied.memory.get());
  gpu_->copy(stream, playing.copied.memory.get(), made.in.data, made.in.bytes());
}

StagedBackend::Scratch StagedBackend::take_scratch(Side& side, std::size_t bytes) {
  const auto spare = std::ranges::find_if(side.spare, [&](const Scratch& one) { return one.bytes >= bytes; });
  if (spare != side.spare.end()) {
    Scratch found = std::move(*spare);
    side.spare.erase(spare);
    return found;
  }
  const std::size_t rounded = std::bit_ceil(bytes);
  return {gpu_->allocate((*side.fetching).device, rounded), rounded};
}

// Returns a call's scratch for reuse.
void StagedBackend::give_back(Playing& playing) {
  if (playing.copied.memory) playing.side->spare.push_back(std::move(playing.copied));
}

// ---- on the host --------------------------------------------------------------------------------

bool StagedBackend::play() {
  if (plays_ || played_) return false;
  if (playing_ == staged_.size()) {
    if (fetching_ == calls_.size() || calls_[fetching_]->slicing) return false;
    measure(*calls_[fetching_]);
    return true;
  }
  Staged& one = staged_[playing_];
  if (one.fetching) {
    if (!gpu_->query(*one.side->fetched[one.slot])) return false;
    one.fetching = false;
  }
  play_slice(one);
  return true;
}

void StagedBackend::play_slice(Staged& one) {
  on_host_.what = std::move(one.slice.call);
  Collective& call = on_host_.what;
  call.in.data = call.in.count > 0 ? half(one.slot, false) : nullptr;
  call.out.data = call.out.count > 0 ? half(one.slot, !one.slice.in_place) : nullptr;
  start_on_host(*one.of);
}

// For a call with has_own_counts(): an allreduce finds the largest count, which determines the number of slices.
void StagedBackend::measure(Playing& playing) {
  const Collective& call = playing.call->what;
  largest_ = 0;
  for (const auto* counts : {&call.in_counts, &call.out_counts})
    for (const std::size_t count : *counts) largest_ = std::max(largest_, static_cast<std::int64_t>(count));
  on_host_.what = {};
  on_host_.what.kind = Kind::allreduce;
  on_host_.what.in = on_host_.what.out = Buffer(&largest_, 1, DType::i64);
  on_host_.what.op = max;
  measures_ = true;
  start_on_host(playing);
}

void StagedBackend::start_on_host(const Playing& playing) {
  on_host_.sequence = playing.call->sequence;
  const bool is_checked = playing.call->summary != Signature();
  on_host_.summary = is_checked ? signature(on_host_.what, group_.rank, group_.size()) : Signature();
  on_host_.algorithm = {};
  on_host_.tracker = nullptr;
  plays_ = true;
  inner_->start(on_host_);
}

void StagedBackend::trouble_on_host(const Status& why) {
  if (!broken_) at_hand().call->trouble(why);
}

void StagedBackend::ended_on_host(const Status& status) {
  plays_ = false;
  on_host_.tracker = nullptr;
  if (broken_) return;
  if (status.ok()) {
    played_ = true;
  } else {
    broken_ = true;
    at_hand().call->trouble(status);
  }
}

// ---- to the device ------------------------------------------------------------------------------

bool StagedBackend::store() {
  if (!played_ || (!measures_ && !is_ready(*staged_[playing_].of))) return false;
  played_ = false;
  if (std::exchange(measures_, false)) {
    Playing& playing = *calls_[fetching_];
    playing.slicing = std::make_unique<Slicing>(playing.call->what, group_.rank, group_.size(), host_.slot_bytes,
                                                static_cast<std::size_t>(largest_));
    return true;
  }
  Staged& one = staged_[playing_++];
  Playing& playing = *one.of;
  const bool last = playing.is_last(one.number), stores = !one.slice.out.empty();
  if (!stores && !last) return true;
  const Stream& stream = *playing.side->storing;
  for (const Piece& piece : one.slice.out)
    gpu_->copy(stream, playing.call->what.out.data + piece.device, half(one.slot, !one.slice.in_place) + piece.host,
               piece.bytes);
  gpu_->record(*playing.side->stored[one.slot], stream);
  one.storing = true;
  if (last) playing.call->enqueued(*playing.side->stored[one.slot]);
  return true;
}

bool StagedBackend::retire() {
  if (playing_ == 0) return false;
  Staged& one = staged_.front();
  if (one.storing && !gpu_->query(*one.side->stored[one.slot])) return false;
  const bool last = one.of->is_last(one.number);
  staged_.pop_front();
  --playing_;
  if (!last) return true;
  const std::unique_ptr<Playing> over = std::move(calls_.front());
  calls_.pop_front();
  --fetching_;
  give_back(*over);
  over->call->ended({});
  return true;
}

// ---- failure ------------------------------------------------------------------------------------

void StagedBackend::fail(Code code, const std::string& what) {
  broken_ = true;
  if (calls_.empty()) return;
  const int self = group_.members[static_cast<std::size_t>(group_.rank)];
  calls_.front()->call->trouble(Status::failure(code, "rank " + std::to_string(self) + ": " + what, self));
}

// True if no copy of the call is on a stream any more. A device that has failed for good copies nothing more.
bool StagedBackend::has_settled(const Playing& playing) noexcept {
  try {
    for (const Staged& one : staged_) {
      if (one.of != &playing) continue;
      if (one.fetching && !gpu_->query(*one.side->fetched[one.slot])) return false;
      if (one.storing && !gpu_->query(*one.side->stored[one.slot])) return false;
    }
  } catch (const std::exception&) {
  }
  return true;
}

void StagedBackend::cancel(const Status& why) noexcept {
  broken_ = true;
  if (inner_) inner_->cancel(why);
  std::deque<std::unique_ptr<Playing>> calls;
  calls.swap(calls_);
  Settling patience;
  int left = 0;
  for (auto& one : calls) {
    Call& call = *one->call;
    if (patience.wait_for([&] { return has_settled(*one); })) {
      std::erase_if(staged_, [&](const Staged& staged) { return staged.of == one.get(); });
      give_back(*one);
    } else {
      ++left;
      keep_for_ever(std::move(one));  // its slices are still in staged_
      call.abandoned();
    }
    call.ended(why);
  }
  warn_of_unsettled(left, group_.members[static_cast<std::size_t>(group_.rank)]);
}

std::string StagedBackend::where(const Call& call) const {
  for (const Staged& one : staged_) {
    if (one.of->call != &call) continue;
    const std::string slice =
        "slice " + std::to_string(one.number + 1) + " of " + std::to_string(one.of->slicing->slices());
    if (one.fetching) return slice + " is copied from the device";
    if (one.storing) return slice + " is copied to the device";
    if (waits_) return slice + " waits for the stream that the call comes after";
    const bool is_on_host = plays_ && &one == &staged_[playing_];
    const std::string inner = is_on_host ? on_host_.where() : std::string();
    return slice + (inner.empty() ? "" : ": " + inner);
  }
  return waits_ ? "waits for the stream that a call comes after" : "waits behind an earlier call";
}

}  // namespace tutti::staged
