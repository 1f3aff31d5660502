// Common to all engines: publishing a call and detecting a mismatch with another rank's.
#include "transports/causes.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {

CallLine& write_line(GroupMemory& memory, const ShmCall& call) {
  CallLine& line = memory.own().calls[call.number % call_lines];
  line.signature = call.signature;
  line.bytes = call.bytes();
  line.way = call.way;
  return line;
}

void announce(GroupMemory& memory, const ShmCall& call) { memory.post(write_line(memory, call).stamp, call.stamp); }

Status compare_calls(const GroupMemory& memory, const ShmCall& call, int peer) {
  const CallLine& theirs = memory.call_of(peer, call.number);
  if (theirs.stamp.load(std::memory_order_acquire) == call.stamp && theirs.signature == call.signature &&
      theirs.bytes == call.bytes() && theirs.way == call.way)
    return {};
  Tag tag;
  tag.group = memory.group();
  const int me = memory.world_rank(memory.rank());
  if (theirs.signature == call.signature && theirs.bytes == call.bytes())
    return Status::failure(Code::mismatch,
                           "rank " + std::to_string(me) + " and rank " + std::to_string(memory.world_rank(peer)) +
                               " named different algorithms of shm for " + describe(Signature{call.signature}) +
                               "; CallOptions::algorithm must be the same on all ranks");
  return Status(
      mismatch(tag, {memory.world_rank(peer), theirs.signature, theirs.bytes}, {me, call.signature, call.bytes()}, me));
}

}  // namespace tutti::shm
