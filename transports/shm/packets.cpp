// Packets: every rank writes what it gives once, in lines that carry their own flag, and reads the others' lines.
//
// The sets of lines take turns. One may be written again when nobody reads it any more, which a rank knows of those
// that have entered a later call: after an allreduce of everyone, after broadcasts it has to look now and then.
// Cost: one line's way from core to core for each 56 bytes, all of them at once.
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t payload_bytes = sizeof(Packet::payload);

std::size_t packets_of(const DirectCall& call) noexcept {
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

// Bytes [from, from + bytes) of what lies in the packets.
void unpack(std::span<const Packet> packets, std::size_t from, std::byte* into, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const std::size_t skip = from % payload_bytes, n = std::min(bytes, payload_bytes - skip);
    tutti::copy(into, packets[from / payload_bytes].payload.data() + skip, n);
    from += n;
    into += n;
    bytes -= n;
  }
}

// Takes what the ranks give, one after the other in their order.
class Taking {
 public:
  explicit Taking(const DirectCall& call) noexcept : call_(call), last_(call.fold) { last_.divisor = call.divisor; }

  void own() noexcept {
    const std::byte* const block = call_.given() + call_.given_at(call_.rank) * call_.width;
    if (call_.folds()) return fold(call_.rank, block);
    std::byte* const place = into(call_.rank);
    if (place != block) tutti::copy(place, block, call_.bytes());
  }

  void from(int other, std::span<const Packet> packets) {
    const std::size_t at = call_.given_at(call_.rank) * call_.width;
    if (!call_.folds()) return unpack(packets, at, into(other), call_.bytes());
    if (at % payload_bytes + call_.bytes() <= payload_bytes)  // as it lies
      return fold(other, packets[at / payload_bytes].payload.data() + at % payload_bytes);
    unpack(packets, at, image_, call_.bytes());
    fold(other, image_);
  }

 private:
  std::byte* into(int other) const noexcept { return call_.out + call_.taken_at(other) * call_.width; }

  void fold(int other, const std::byte* block) {
    const bool ends = other + 1 == call_.size;
    if (other == 0 && !ends) {
      sum_ = block;
      if (call_.rank == 0 && call_.size == 2) return;  // the own input stays where it is
      tutti::copy(between_, block, call_.bytes());
      sum_ = between_;
      return;
    }
    (ends ? last_ : call_.fold)(ends ? call_.out : between_, sum_, block, call_.bytes());
    sum_ = between_;
  }

  const DirectCall& call_;
  Fold last_;
  const std::byte* sum_ = nullptr;
  alignas(64) std::byte between_[packed_bytes], image_[packed_bytes];
};

}  // namespace

EngineTask play_packets(Room& room, const DirectCall& call) {
  const std::size_t used = packets_of(call), set = call.number % packet_sets;
  write_line(room, call).stamp.store(call.stamp, std::memory_order_release);  // and wakes others below
  if (call.gives(call.rank) && call.others_take()) {
    while (const auto late = room.who_is_behind(call.number)) {
      room.wake();
      co_await room.until(*late);
    }
    pack(std::span(room.own().packets[set]).first(used), call.given(), call.given_bytes(), call.stamp);
  }
  room.wake();
  if (!call.takes(call.rank)) co_return Status();
  Taking taking(call);
  for (int other = 0; other < call.size; ++other) {
    if (!call.gives(other)) continue;
    if (other == call.rank) {
      if (call.kind != Kind::barrier) taking.own();
      continue;
    }
    const auto packets = std::span(room.of(other).packets[set]).first(used);
    for (const Packet& packet : packets) {
      co_await room.until(packet.stamp, least_stamp(call.number), other);
      if (packet.stamp.load(std::memory_order_relaxed) != call.stamp) co_return compare_calls(room, call, other);
    }
    room.has_entered(other, call.number);
    if (call.kind != Kind::barrier) taking.from(other, packets);
  }
  co_return Status();
}

}  // namespace tutti::shm
