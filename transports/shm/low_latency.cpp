// LL (low latency, as in NCCL): every rank writes its data once, in cache lines that carry their own flag, and reads
// the lines of the others.
//
// Calls rotate over several sets of lines. A set may be reused once no rank reads it. A rank that has entered a later
// call reads the set no more: after an allreduce a sender knows this of all ranks; after broadcasts it checks
// occasionally. Cost: the transfer of one cache line between cores per 56 bytes, all in parallel.
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t payload_bytes = sizeof(Packet::payload);

std::size_t packets_in(const ShmCall& call) noexcept {
  return std::max<std::size_t>(1, (call.given_bytes() + payload_bytes - 1) / payload_bytes);
}

void pack(std::span<Packet> packets, const std::byte* from, std::size_t bytes, std::uint64_t stamp) noexcept {
  std::size_t at = 0;
  for (Packet& packet : packets) {
    const std::size_t n = std::min(payload_bytes, bytes - at);
    tutti::copy(packet.payload.data(), from + at, n);
    packet.stamp.store(stamp, std::memory_order_release);
    at += n;
  }
}

// Copies bytes [from, from + bytes) of the packets' payload.
void unpack(std::span<const Packet> packets, std::size_t from, std::byte* into, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const std::size_t skip = from % payload_bytes, n = std::min(bytes, payload_bytes - skip);
    tutti::copy(into, packets[from / payload_bytes].payload.data() + skip, n);
    from += n;
    into += n;
    bytes -= n;
  }
}

void take(const ShmCall& call, int other, std::span<const Packet> packets) noexcept {
  unpack(packets, call.given_at(call.rank) * call.width, call.out + call.taken_at(other) * call.width, call.bytes());
}

void take_own(const ShmCall& call) noexcept {
  const std::byte* const block = call.given() + call.given_at(call.rank) * call.width;
  std::byte* const place = call.out + call.taken_at(call.rank) * call.width;
  if (place != block) tutti::copy(place, block, call.bytes());
}

// Reduces packet by packet: no element spans two packets, because the payload is a multiple of every element size.
void fold(const GroupMemory& memory, const ShmCall& call, bool wide) {
  static_assert(payload_bytes % sizeof(double) == 0);
  const std::size_t begin = call.given_at(call.rank) * call.width, end = begin + call.bytes();
  for (std::size_t at = begin, n = 0; at < end; at += n) {
    const std::size_t skip = at % payload_bytes;
    n = std::min(end - at, payload_bytes - skip);
    fold_in_order(call, Target{call.out + (at - begin)}, n, [&](int other) {
      if (other == call.rank) return call.given() + at;
      return memory.packets_of(other, call.number, wide)[at / payload_bytes].payload.data() + skip;
    });
  }
}

}  // namespace

EngineTask play_low_latency(GroupMemory& memory, const ShmCall& call) {
  const std::size_t used = packets_in(call);
  const bool wide = used > packets_per_call, gives = call.gives(call.rank) && call.others_take();
  Packet* const own = gives ? memory.own_packets(call.number, wide) : nullptr;
  write_line(memory, call).stamp.store(call.stamp, std::memory_order_release);  // sleeping ranks are woken below
  if (gives) {
    while (const auto late = memory.who_is_behind(call.number)) {
      memory.wake();
      co_await memory.until(*late);
    }
    pack(std::span(own, used), call.given(), call.given_bytes(), call.stamp);
  }
  memory.wake();
  if (!call.takes(call.rank)) co_return Status();
  const bool copies = !call.folds() && call.kind != Kind::barrier;
  if (copies && call.gives(call.rank)) take_own(call);
  for (int other = 0; other < call.size; ++other) {
    if (!call.gives(other) || other == call.rank) continue;
    if (wide) {  // the call line's stamp publishes Slab::wide
      co_await memory.until(memory.call_of(other, call.number).stamp, least_stamp(call.number), other);
      if (Status same = compare_calls(memory, call, other); !same.ok()) co_return same;
    }
    const std::span<const Packet> packets(memory.packets_of(other, call.number, wide), used);
    for (const Packet& packet : packets) {
      co_await memory.until(packet.stamp, least_stamp(call.number), other);
      if (packet.stamp.load(std::memory_order_relaxed) != call.stamp) co_return compare_calls(memory, call, other);
    }
    memory.has_entered(other, call.number);
    if (copies) take(call, other, packets);
  }
  if (call.folds()) fold(memory, call, wide);
  co_return Status();
}

}  // namespace tutti::shm
