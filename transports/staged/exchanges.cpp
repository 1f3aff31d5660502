#include "transports/staged/exchanges.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "transports/core/deferred_release.hpp"
#include "transports/core/for_ever.hpp"
#include "transports/core/layout.hpp"
#include "transports/staged/settling.hpp"
#include "tutti/fork.hpp"

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
  const auto leave = [](auto... all) { (deferred_release(std::move(all)), ...); };
  const auto keep = [](auto... all) { (keep_for_ever(std::move(all)), ...); };
  // In a forked child the device belongs to the parent; and a stuck device may still use the memory.
  if (fork_generation() == generation_ && !left_some_)
    leave(std::move(streams_), std::move(spare_slots_), std::move(spare_scratch_));
  else
    keep(std::move(calls_), std::move(streams_), std::move(spare_slots_), std::move(spare_scratch_));
}

// ---- resources of a call ------------------------------------------------------------------------

void Exchanges::start(Call& call, const Half& send, const Half& recv) {
  const Collective& made = call.what;
  auto exchange = std::make_unique<Exchange>();
  exchange->call = &call;
  exchange->device = device_of(made).index;
  try {
    prepare(*exchange, send, recv);
    calls_.reserve(calls_.size() + 1);
  } catch (...) {
    deferred_release(std::move(exchange));
    throw;
  }
  for (Way* way : {&exchange->out, &exchange->in})
    if (way->is_used) order_[Key(way == &exchange->out, way->peer, way->half.tag.sequence)].push_back(way);
  calls_.push_back(std::move(exchange));
}

void Exchanges::prepare(Exchange& exchange, const Half& send, const Half& recv) {
  const Collective& made = exchange.call->what;
  if (made.to >= 0) {
    exchange.out.memory = const_cast<std::byte*>(made.in.data);  // const_cast: only read
    exchange.out.bytes = made.in.bytes();
    prepare(exchange, exchange.out, send, made.to, true);
  }
  if (made.from >= 0) {
    exchange.in.memory = made.out.data;
    exchange.in.bytes = made.out.bytes();
    prepare(exchange, exchange.in, recv, made.from, false);
  }
  const Way& out = exchange.out;
  if (made.to >= 0 && made.from >= 0 && out.slices > out.slots.size() && overlap(made.in, made.out)) save(exchange);
}

void Exchanges::prepare(Exchange& exchange, Way& way, const Half& half, int peer, bool to_host) {
  way.is_used = true;
  way.half = half;
  way.peer = group_.members[static_cast<std::size_t>(peer)];
  way.slices = std::max<std::size_t>((way.bytes + slot_bytes_ - 1) / slot_bytes_, 1);
  static_cast<void>(stream_of(exchange.device, to_host));
  const std::size_t each = std::min(std::max(std::bit_ceil(way.bytes), smallest_slot), slot_bytes_);
  for (std::size_t slot = 0; slot < std::min(way.slices, way.slots.size()); ++slot)
    way.slots[slot] = take_slot(exchange.device, each);
}

// Prepares a copy of the data to send, for overlapping buffers and a message with more slices than slots: receiving
// must neither wait for the send nor overwrite data that is not sent yet.
void Exchanges::save(Exchange& exchange) {
  const std::size_t bytes = std::bit_ceil(exchange.out.bytes);
  const auto spare = spare_scratch_.find({exchange.device, bytes});
  if (spare != spare_scratch_.end()) {
    exchange.scratch = std::move(spare->second);
    spare_scratch_.erase(spare);
  } else {
    exchange.scratch = gpu_.allocate(exchange.device, bytes);
  }
  exchange.scratch_bytes = bytes;
  exchange.saved = Owned<Event>(gpu_, gpu_.make_event(exchange.device));
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
    Exchange& exchange = *calls_[i];
    if (!exchange.broken) {
      try {
        while (advance(exchange)) moved = true;
      } catch (const Error& error) {
        fail(exchange, error.code(), error.what());
      } catch (const std::exception& error) {
        fail(exchange, Code::resource, error.what());
      }
    }
    if (!is_over(exchange)) {
      ++i;
      continue;
    }
    std::unique_ptr<Exchange> over = std::move(calls_[i]);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
    end(std::move(over), {});
    moved = true;
  }
  return moved;
}

// Only work on the device needs polling.
bool Exchanges::polled() const noexcept {
  return std::ranges::any_of(calls_, [](const auto& exchange) {
    return !exchange->broken &&
           (!exchange->is_ready || exchange->is_saving || exchange->out.is_copying() || exchange->in.is_copying());
  });
}

bool Exchanges::advance(Exchange& exchange) {
  bool moved = false;
  if (!exchange.is_ready) {
    exchange.is_ready = exchange.call->after.handle == nullptr || gpu_.query(exchange.call->after);
    if (exchange.is_ready && exchange.scratch) {
      const Stream& stream = stream_of(exchange.device, true);
      gpu_.copy(stream, exchange.scratch.get(), exchange.out.memory, exchange.out.bytes);
      gpu_.record(*exchange.saved, stream);
      exchange.out.memory = static_cast<std::byte*>(exchange.scratch.get());
      exchange.is_saving = true;
    }
    moved = exchange.is_ready;
  }
  if (exchange.is_saving && gpu_.query(*exchange.saved)) {
    exchange.is_saving = false;
    moved = true;
  }
  if (exchange.out.is_used) moved |= send(exchange);
  if (exchange.in.is_used) moved |= receive(exchange);
  return moved;
}

bool Exchanges::may_give(const Way& way, bool sends) {
  return way.given < way.slices && order_[Key(sends, way.peer, way.half.tag.sequence)].front() == &way;
}

void Exchanges::copy(Exchange& exchange, Way& way, bool to_host) {
  const std::size_t bytes = slice_bytes(way, way.copied);
  std::byte* const on_device = way.memory + way.copied * slot_bytes_;
  const Slot& slot = way.slots[way.copied % way.slots.size()];
  const Stream& stream = stream_of(exchange.device, to_host);
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

bool Exchanges::send(Exchange& exchange) {
  Way& way = exchange.out;
  bool moved = look_for_end(way);
  if (exchange.is_ready && way.copied < way.slices && !way.busy[way.copied % 2]) {
    way.busy[way.copied % 2] = true;
    copy(exchange, way, true);
    moved = true;
  }
  while (way.given < way.landed && may_give(way, true)) {
    const std::size_t slot = way.given % 2, bytes = slice_bytes(way, way.given);
    wire_.send(way.peer, way.half.tag, way.half.summary,
               {static_cast<const std::byte*>(way.slots[slot].memory.get()), bytes},
               done_of(exchange, way, slot, true));
    moved = true;
  }
  return moved;
}

bool Exchanges::receive(Exchange& exchange) {
  Way& way = exchange.in;
  bool moved = false;
  if (look_for_end(way)) {
    way.busy[(way.landed - 1) % 2] = false;
    moved = true;
  }
  while (!way.busy[way.given % 2] && may_give(way, false)) {
    const std::size_t slot = way.given % 2, bytes = slice_bytes(way, way.given);
    way.busy[slot] = true;
    wire_.recv(way.peer, way.half.tag, way.half.summary, {static_cast<std::byte*>(way.slots[slot].memory.get()), bytes},
               done_of(exchange, way, slot, false));
    moved = true;
  }
  // In place, all data to send must be in slots before the receive writes; if it does not fit, it is in the scratch.
  const bool may_write = exchange.is_ready && !exchange.is_saving &&
                         (exchange.out.slices > 2 || exchange.out.landed == exchange.out.slices);
  if (may_write && way.copied < way.given && std::exchange(way.arrived[way.copied % 2], false)) {
    copy(exchange, way, false);
    moved = true;
  }
  return moved;
}

// Returns the callback of a message. Also counts the message as started.
Done Exchanges::done_of(Exchange& exchange, Way& way, std::size_t slot, bool sends) {
  if (++way.given == way.slices) {
    const auto found = order_.find(Key(sends, way.peer, way.half.tag.sequence));
    found->second.pop_front();
    if (found->second.empty()) order_.erase(found);
  }
  return [&exchange, &way, slot, sends](const Status& status) {
    ++way.carried;
    if (status.ok()) {
      (sends ? way.busy : way.arrived)[slot] = !sends;
      return;
    }
    exchange.broken = true;
    exchange.call->trouble(status);
  };
}

// ---- ends ---------------------------------------------------------------------------------------

bool Exchanges::is_over(const Exchange& exchange) const noexcept {
  return !exchange.broken && exchange.out.carried == exchange.out.slices && exchange.in.landed == exchange.in.slices;
}

void Exchanges::fail(Exchange& exchange, Code code, const std::string& what) {
  exchange.broken = true;
  const int self = group_.members[static_cast<std::size_t>(group_.rank)];
  exchange.call->trouble(Status::failure(code, "rank " + std::to_string(self) + ": " + what, self));
}

// True if no copy of the exchange is on a stream any more. A device that has failed for good copies nothing more.
bool Exchanges::has_settled(Exchange& exchange) noexcept {
  try {
    while (look_for_end(exchange.out) || look_for_end(exchange.in)) continue;
    if (exchange.is_saving) exchange.is_saving = !gpu_.query(*exchange.saved);
    return !exchange.is_saving && !exchange.out.is_copying() && !exchange.in.is_copying();
  } catch (const std::exception&) {
    return true;
  }
}

void Exchanges::end(std::unique_ptr<Exchange> exchange, const Status& status) noexcept {
  for (Way* way : {&exchange->out, &exchange->in})
    for (Slot& slot : way->slots)
      if (slot.memory) spare_slots_.emplace(std::pair(exchange->device, slot.bytes), std::move(slot));
  if (exchange->scratch)
    spare_scratch_.emplace(std::pair(exchange->device, exchange->scratch_bytes), std::move(exchange->scratch));
  exchange->call->ended(status);
}

void Exchanges::cancel(const Status& why) noexcept {
  order_.clear();
  std::vector<std::unique_ptr<Exchange>> calls;
  calls.swap(calls_);
  for (auto& exchange : calls) exchange->broken = true;
  Settling patience;
  int left = 0;
  for (auto& exchange : calls) {
    if (patience.wait_for([&] { return has_settled(*exchange); })) {
      end(std::move(exchange), why);
      continue;
    }
    ++left;
    Call& call = *exchange->call;
    keep_for_ever(std::move(exchange));  // including its slots
    call.abandoned();
    call.ended(why);
  }
  left_some_ |= left > 0;
  warn_of_unsettled(left, group_.members[static_cast<std::size_t>(group_.rank)]);
}

}  // namespace tutti::staged
