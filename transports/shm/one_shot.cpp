// One shot: every rank copies its data into a slot of its own and publishes the call; then it reads what it needs from
// the others' slots. Calls rotate over several slots, for two reasons: a sender need not check at every call whether
// all ranks have finished, and a line that was just written is slow to read from another core's L1 cache.
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

// The data of rank `other` for this rank, once published.
const std::byte* given_to_me(const GroupMemory& memory, const ShmCall& call, int other) noexcept {
  const std::byte* const from = other == call.rank ? call.given() : memory.shot_of(other, call.number);
  return from + call.given_at(call.rank) * call.width;
}

void take_from(const GroupMemory& memory, const ShmCall& call, int other) noexcept {
  std::byte* const into = call.out + call.taken_at(other) * call.width;
  const std::byte* const from = given_to_me(memory, call, other);
  if (into != from) fetch(into, from, call.bytes());
}

}  // namespace

EngineTask play_one_shot(GroupMemory& memory, const ShmCall& call) {
  if (call.gives(call.rank) && call.others_take()) {
    while (const auto late = memory.who_is_behind(call.number)) co_await memory.until(*late);
    memory.staging().copy(memory.own_shot(call.number), call.given(), call.given_bytes());
  }
  announce(memory, call);
  if (!call.takes(call.rank)) {
    memory.own().finished.store(call.number, std::memory_order_release);
    co_return Status();
  }
  const bool copies = !call.folds() && call.kind != Kind::barrier;
  if (copies && call.gives(call.rank)) take_from(memory, call, call.rank);  // while the others arrive
  for (int other = 0; other < call.size; ++other) {
    if (!call.gives(other) || other == call.rank) continue;
    co_await memory.until(memory.call_of(other, call.number).stamp, least_stamp(call.number), other);
    if (Status same = compare_calls(memory, call, other); !same.ok()) co_return same;
    memory.has_entered(other, call.number);
    if (copies) take_from(memory, call, other);
  }
  if (call.folds())
    fold_in_order(call, Target{call.out}, call.bytes(), [&](int other) { return given_to_me(memory, call, other); });
  memory.own().finished.store(call.number, std::memory_order_release);
  co_return Status();
}

}  // namespace tutti::shm
