// What engines share: telling of a call, and finding that another rank makes another one.
#include "transports/causes.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {

void announce(Room& room, const DirectCall& call) {
  CallLine& line = room.own().calls[call.number % 4];
  line.signature = call.signature;
  line.bytes = call.bytes();
  line.way = call.way;
  line.in = room.offset_of(call.in, call.given_bytes());
  line.out = room.offset_of(call.out, call.out_bytes());
  room.post(line.stamp, call.stamp);
}

EngineTask play_meeting(Room& room, const DirectCall& call) {
  announce(room, call);
  for (int other = 0; other < call.size; ++other) {
    if (other == call.rank) continue;
    co_await room.until(room.call_of(other, call.number).stamp, least_stamp(call.number), other);
    if (Status same = compare_calls(room, call, other); !same.ok()) co_return same;
    room.has_entered(other, call.number);
  }
  co_return Status();
}

Status compare_calls(const Room& room, const DirectCall& call, int peer) {
  const CallLine& theirs = room.call_of(peer, call.number);
  if (theirs.stamp.load(std::memory_order_acquire) == call.stamp && theirs.signature == call.signature &&
      theirs.bytes == call.bytes() && theirs.way == call.way)
    return {};
  Tag tag;
  tag.group = room.group();
  const int me = room.world_rank(room.rank());
  if (theirs.signature == call.signature && theirs.bytes == call.bytes())
    return Status::failure(Code::mismatch,
                           "rank " + std::to_string(me) + " and rank " + std::to_string(room.world_rank(peer)) +
                               " named different algorithms of shm for " + describe(Signature{call.signature}) +
                               "; CallOptions::algorithm must be the same on all ranks");
  return Status(
      mismatch(tag, {room.world_rank(peer), theirs.signature, theirs.bytes}, {me, call.signature, call.bytes()}, me));
}

}  // namespace tutti::shm
