#include "transports/staged/exchanges.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "transports/core/for_ever.hpp"
#include "transports/core/fork.hpp"
#include "transports/core/let_go.hpp"
#include "transports/staged/settling.hpp"

namespace tutti::staged {
namespace {

constexpr std::size_t smallest_slot = 16 << 10;

bool overlap(const ConstBuffer& a, const ConstBuffer& b) noexcept {
  return a.bytes() > 0 && b.bytes() > 0 && a.data < b.data + b.bytes() && b.data < a.data + a.bytes();
}

}  // namespace

Exchanges::Exchanges(const Group& group, Transport& wire, Accelerator& gpu, std::size_t slot_bytes)
    : group_(group), wire_(wire), gpu_(gpu), slot_bytes_(slot_bytes), generation_(fork_generation()) {}

Exchanges::~Exchanges() {
  const auto leave = [](auto... all) { (let_go_elsewhere(std::move(all)), ...); };
  const auto keep = [](auto... all) { (keep_for_ever(std::move(all)), ...); };
  // In a child the device is the parent's; where it does not get on, it may still use what is here.
  if (fork_generation() == generation_ && !left_some_)
    leave(std::move(streams_), std::move(spare_slots_), std::move(spare_scratch_));
  else
    keep(std::move(calls_), std::move(streams_), std::move(spare_slots_), std::move(spare_scratch_));
}

// ---- what a call needs --------------------------------------------------------------------------

void Exchanges::start(const Collective& made, const Half& send, const Half& recv, const Event& ready,
                      CallListener& listener) {
  auto call = std::make_unique<Call>();
  call->device = (made.out.device.kind != Device::Kind::cpu ? made.out.device : made.in.device).index;
  call->ready = ready;
  call->listener = &listener;
  try {
    prepare(*call, made, send, recv);
    calls_.reserve(calls_.size() + 1);
  } catch (...) {
    let_go_elsewhere(std::move(call));
    throw;
  }
  for (Way* way : {&call->out, &call->in})
    if (way->is_used) order_[Key(way == &call->out, way->peer, way->half.tag.sequence)].push_back(way);
  calls_.push_back(std::move(call));
}

void Exchanges::prepare(Call& call, const Collective& made, const Half& send, const Half& recv) {
  if (made.to >= 0) {
    call.out.memory = const_cast<std::byte*>(made.in.data);  // which is only read
    call.out.bytes = made.in.bytes();
    prepare(call, call.out, send, made.to, true);
  }
  if (made.from >= 0) {
    call.in.memory = made.out.data;
    call.in.bytes = made.out.bytes();
    prepare(call, call.in, recv, made.from, false);
  }
  if (made.to >= 0 && made.from >= 0 && call.out.slices > call.out.slots.size() && overlap(made.in, made.out))
    save(call, made);
}

void Exchanges::prepare(Call& call, Way& way, const Half& half, int peer, bool to_host) {
  way.is_used = true;
  way.half = half;
  way.peer = group_.members[static_cast<std::size_t>(peer)];
  way.slices = std::max<std::size_t>((way.bytes + slot_bytes_ - 1) / slot_bytes_, 1);
  static_cast<void>(stream_of(call.device, to_host));
  const std::size_t each = std::min(std::max(std::bit_ceil(way.bytes), smallest_slot), slot_bytes_);
  for (std::size_t slot = 0; slot < std::min(way.slices, way.slots.size()); ++slot)
    way.slots[slot] = take_slot(call.device, each);
}

// Of more slices than there are slots: what comes in may not wait for what has not gone out, and must not overwrite it.
void Exchanges::save(Call& call, const Collective& made) {
  const std::size_t bytes = std::bit_ceil(made.in.bytes());
  const auto spare = spare_scratch_.find({call.device, bytes});
  if (spare != spare_scratch_.end()) {
    call.scratch = std::move(spare->second);
    spare_scratch_.erase(spare);
  } else {
    call.scratch = gpu_.allocate(call.device, bytes);
  }
  call.scratch_bytes = bytes;
  call.saved = Owned<Event>(gpu_, gpu_.make_event(call.device));
}

Exchanges::Slot Exchanges::take_slot(int device, std::size_t bytes) {
  if (const auto spare = spare_slots_.find({device, bytes}); spare != spare_slots_.end()) {
    Slot slot = std::move(spare->second);
    spare_slots_.erase(spare);
    return slot;
  }
  return {gpu_.allocate_pinned(bytes), bytes, Owned<Event>(gpu_, gpu_.make_event(device))};
}

const Stream& Exchanges::stream_of(int device, bool to_host) {
  auto& stream = streams_[{device, to_host}];
  if (!stream) stream = Owned<Stream>(gpu_, gpu_.make_stream(device));
  return *stream;
}

std::size_t Exchanges::slice_bytes(const Way& way, std::size_t number) const noexcept {
  return std::min(slot_bytes_, way.bytes - std::min(way.bytes, number * slot_bytes_));
}

// ---- progress -----------------------------------------------------------------------------------

bool Exchanges::progress() {
  bool moved = false;
  for (std::size_t i = 0; i < calls_.size();) {
    Call& call = *calls_[i];
    if (!call.broken) {
      try {
        while (advance(call)) moved = true;
      } catch (const Error& error) {
        fail(call, error.code(), error.what());
      } catch (const std::exception& error) {
        fail(call, Code::resource, error.what());
      }
    }
    if (!is_over(call)) {
      ++i;
      continue;
    }
    std::unique_ptr<Call> over = std::move(calls_[i]);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
    end(std::move(over), {});
    moved = true;
  }
  return moved;
}

// Only the device's own work tells of nothing.
bool Exchanges::polled() const noexcept {
  return std::ranges::any_of(calls_, [](const auto& call) {
    return !call->broken && (!call->is_ready || call->is_saving || call->out.is_copying() || call->in.is_copying());
  });
}

bool Exchanges::advance(Call& call) {
  bool moved = false;
  if (!call.is_ready) {
    call.is_ready = call.ready.handle == nullptr || gpu_.query(call.ready);
    if (call.is_ready && call.scratch) {
      const Stream& stream = stream_of(call.device, true);
      gpu_.copy(stream, call.scratch.get(), call.out.memory, call.out.bytes);
      gpu_.record(*call.saved, stream);
      call.out.memory = static_cast<std::byte*>(call.scratch.get());
      call.is_saving = true;
    }
    moved = call.is_ready;
  }
  if (call.is_saving && gpu_.query(*call.saved)) {
    call.is_saving = false;
    moved = true;
  }
  if (call.out.is_used) moved |= send(call);
  if (call.in.is_used) moved |= receive(call);
  return moved;
}

bool Exchanges::may_give(const Way& way, bool sends) {
  return way.given < way.slices && order_[Key(sends, way.peer, way.half.tag.sequence)].front() == &way;
}

void Exchanges::copy(Call& call, Way& way, bool to_host) {
  const std::size_t bytes = slice_bytes(way, way.copied);
  std::byte* const on_device = way.memory + way.copied * slot_bytes_;
  const Slot& slot = way.slots[way.copied % way.slots.size()];
  const Stream& stream = stream_of(call.device, to_host);
  if (bytes > 0 && to_host) gpu_.copy(stream, slot.memory.get(), on_device, bytes);
  if (bytes > 0 && !to_host) gpu_.copy(stream, on_device, slot.memory.get(), bytes);
  gpu_.record(*slot.copied, stream);
  ++way.copied;
}

bool Exchanges::look_for_end(Way& way) {
  if (!way.is_copying() || !gpu_.query(*way.slots[way.landed % way.slots.size()].copied)) return false;
  ++way.landed;
  return true;
}

bool Exchanges::send(Call& call) {
  Way& way = call.out;
  bool moved = look_for_end(way);
  if (call.is_ready && way.copied < way.slices && !way.busy[way.copied % 2]) {
    way.busy[way.copied % 2] = true;
    copy(call, way, true);
    moved = true;
  }
  while (way.given < way.landed && may_give(way, true)) {
    const std::size_t slot = way.given % 2, bytes = slice_bytes(way, way.given);
    wire_.send(way.peer, way.half.tag, way.half.summary,
               {static_cast<const std::byte*>(way.slots[slot].memory.get()), bytes}, done_of(call, way, slot, true));
    moved = true;
  }
  return moved;
}

bool Exchanges::receive(Call& call) {
  Way& way = call.in;
  bool moved = false;
  if (look_for_end(way)) {
    way.busy[(way.landed - 1) % 2] = false;
    moved = true;
  }
  while (!way.busy[way.given % 2] && may_give(way, false)) {
    const std::size_t slot = way.given % 2, bytes = slice_bytes(way, way.given);
    way.busy[slot] = true;
    wire_.recv(way.peer, way.half.tag, way.half.summary, {static_cast<std::byte*>(way.slots[slot].memory.get()), bytes},
               done_of(call, way, slot, false));
    moved = true;
  }
  // In place, all that goes out must be in slots first; where it does not fit there, it is in the scratch.
  const bool may_write =
      call.is_ready && !call.is_saving && (call.out.slices > 2 || call.out.landed == call.out.slices);
  if (may_write && way.copied < way.given && std::exchange(way.arrived[way.copied % 2], false)) {
    copy(call, way, false);
    moved = true;
  }
  return moved;
}

// Notes that one more message is given, too.
Done Exchanges::done_of(Call& call, Way& way, std::size_t slot, bool sends) {
  if (++way.given == way.slices) {
    const auto found = order_.find(Key(sends, way.peer, way.half.tag.sequence));
    found->second.pop_front();
    if (found->second.empty()) order_.erase(found);
  }
  return [&call, &way, slot, sends](const Status& status) {
    ++way.carried;
    if (status.ok()) {
      (sends ? way.busy : way.arrived)[slot] = !sends;
      return;
    }
    call.broken = true;
    call.listener->trouble(status);
  };
}

// ---- ends ---------------------------------------------------------------------------------------

bool Exchanges::is_over(const Call& call) const noexcept {
  return !call.broken && call.out.carried == call.out.slices && call.in.landed == call.in.slices;
}

void Exchanges::fail(Call& call, Code code, const std::string& what) {
  call.broken = true;
  const int self = group_.members[static_cast<std::size_t>(group_.rank)];
  call.listener->trouble(Status::failure(code, "rank " + std::to_string(self) + ": " + what, self));
}

// Whether nothing of it is on a stream any more. A device that does nothing more copies nothing either.
bool Exchanges::has_settled(Call& call) noexcept {
  try {
    while (look_for_end(call.out) || look_for_end(call.in)) continue;
    if (call.is_saving) call.is_saving = !gpu_.query(*call.saved);
    return !call.is_saving && !call.out.is_copying() && !call.in.is_copying();
  } catch (const std::exception&) {
    return true;
  }
}

void Exchanges::end(std::unique_ptr<Call> call, const Status& status) noexcept {
  for (Way* way : {&call->out, &call->in})
    for (Slot& slot : way->slots)
      if (slot.memory) spare_slots_.emplace(std::pair(call->device, slot.bytes), std::move(slot));
  if (call->scratch) spare_scratch_.emplace(std::pair(call->device, call->scratch_bytes), std::move(call->scratch));
  call->listener->ended(status);
}

void Exchanges::cancel(const Status& why) noexcept {
  order_.clear();
  std::vector<std::unique_ptr<Call>> calls;
  calls.swap(calls_);
  for (auto& call : calls) call->broken = true;
  Settling patience;
  int left = 0;
  for (auto& call : calls) {
    if (patience.wait_for([&] { return has_settled(*call); })) {
      end(std::move(call), why);
      continue;
    }
    ++left;
    CallListener* const listener = call->listener;
    keep_for_ever(std::move(call));  // its slots with it
    listener->abandoned();
    listener->ended(why);
  }
  left_some_ |= left > 0;
  warn_of_unsettled(left, group_.members[static_cast<std::size_t>(group_.rank)]);
}

}  // namespace tutti::staged
