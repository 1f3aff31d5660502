// Zero-copy: every rank reads the others' buffers in place and writes results to their destination.
//
// In an allreduce a rank reduces its share and writes it, while it is in cache, into all ranks' buffers: p ranks
// with N bytes each read p N and write p N in total, the minimum. In a reduce it writes only into the root's buffer. In
// other kinds a rank reads what it needs. In a broadcast the root, which needs nothing, meanwhile writes its share to
// all ranks if all their buffers are accessible. At the end a rank waits until no peer accesses its buffers.
//
// A rank that writes to others marks itself first and checks whether the owner has been cancelled: see
// GroupMemory::leave_alone().
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{32} << 10;  // bytes written to peers at a time

// The input of rank `other`.
const std::byte* given_by(const GroupMemory& memory, const ShmCall& call, int other) noexcept {
  return other == call.rank ? call.given() : memory.reach(other, memory.call_of(other, call.number).in);
}

// Writes the bytes [from, from + bytes) of the result, which lie in this rank's share, to the ranks that need them; in
// an allreduce or reduce, reduces them first. False: a rank has been cancelled.
bool push(GroupMemory& memory, const ShmCall& call, std::size_t from, std::size_t bytes) {
  const auto given = [&](int other) { return given_by(memory, call, other) + from; };
  const auto result = [&](int other) {
    return (other == call.rank ? call.out : memory.reach(other, memory.call_of(other, call.number).out)) + from;
  };
  const auto is_in_place = [&](int other) {
    const CallLine& theirs = memory.call_of(other, call.number);
    return theirs.in == theirs.out;
  };
  const GroupMemory::Touching touching(memory);
  if (!touching.allowed()) return false;
  if (call.kind == Kind::reduce) {
    fold_in_order(call, Target{result(call.root), call.write}, bytes, given);
    return true;
  }
  if (!call.folds()) {
    for (int other = 0; other < call.size; ++other)
      if (other != call.rank) memory.pushing(other).copy(result(other), given(call.rank), bytes);
    return true;
  }
  if (call.write == Write::streaming) {
    ByRank<Target> targets;
    for (int other = 0; other < call.size; ++other)
      targets[static_cast<std::size_t>(other)] = {result(other), Write::streaming};
    fold_in_order(call, std::span(targets).first(static_cast<std::size_t>(call.size)), bytes, given);
    return true;
  }
  for (std::size_t at = 0; at < bytes; at += fold_bytes) {
    const std::size_t n = std::min(fold_bytes, bytes - at);
    std::byte* const folded = result(call.rank) + at;
    fold_in_order(call, Target{folded}, n, [&](int other) { return given(other) + at; });
    for (int other = 0; other < call.size; ++other)
      if (other != call.rank && is_in_place(other))  // this core has just read those lines and has them in cache
        tutti::copy(result(other) + at, folded, n);
      else if (other != call.rank)
        memory.pushing(other).copy(result(other) + at, folded, n);
  }
  return true;
}

// Reads the bytes [from, from + bytes) of every block, or of the whole buffer, into this rank's output.
void pull(const GroupMemory& memory, const ShmCall& call, std::size_t from, std::size_t bytes) {
  const std::size_t mine = call.given_at(call.rank) * call.width + from;
  const auto given = [&](int other) { return given_by(memory, call, other) + mine; };
  if (call.folds()) return fold_in_order(call, Target{call.out + from, call.write}, bytes, given);
  for (int other = 0; other < call.size; ++other) {
    if (!call.gives(other)) continue;
    std::byte* const into = call.out + call.taken_at(other) * call.width + from;
    if (into != given(other)) call.deliver(into, given(other), bytes);
  }
}

// The part that the root of a broadcast writes to others; empty if it cannot.
Part pushed_by_root(const GroupMemory& memory, const ShmCall& call) noexcept {
  if (call.kind != Kind::broadcast) return {};
  for (int rank = 0; rank < call.size; ++rank)
    if (call.takes(rank) && memory.call_of(rank, call.number).out == 0) return {};
  return share(call.count, call.width, call.root, call.size);
}

}  // namespace

bool is_within_reach(const ShmCall& call, int rank, const CallLine& line) noexcept {
  if (call.gives(rank) && line.in == 0) return false;
  if (call.in_shares() && call.takes(rank) && line.out == 0) return false;
  // False if blocks would be overwritten before every rank has read them.
  return call.kind != Kind::alltoall || line.in != line.out;
}

bool can_play_zero_copy(const GroupMemory& memory, const ShmCall& call) {
  for (int rank = 0; rank < call.size; ++rank)
    if (!is_within_reach(call, rank, memory.call_of(rank, call.number))) return false;
  return true;
}

EngineTask play_zero_copy(GroupMemory& memory, const ShmCall& call) {
  const Part by_root = pushed_by_root(memory, call);
  if (call.in_shares() || (by_root.count > 0 && call.at_root())) {
    const Part mine = call.in_shares() ? share(call.count, call.width, call.rank, call.size) : by_root;
    const std::size_t first = mine.at * call.width, bytes = mine.count * call.width;
    for (std::size_t at = 0; at < bytes; at += chunk_bytes) {
      if (!push(memory, call, first + at, std::min(chunk_bytes, bytes - at))) co_await memory.until_cancelled();
      co_await memory.breathe();
    }
  } else if (call.takes(call.rank)) {
    const std::size_t gap = by_root.at * call.width, after = gap + by_root.count * call.width;
    for (std::size_t at = gap > 0 ? 0 : after; at < call.bytes();) {
      const std::size_t end = at < gap ? gap : call.bytes(), bytes = std::min(chunk_bytes, end - at);
      pull(memory, call, at, bytes);
      at = at + bytes == gap ? after : at + bytes;
      co_await memory.breathe();
    }
    // A cancelled rank may have reused its buffer while it was read.
    light_barrier();
    if (memory.somebody_cancelled()) co_await memory.until_cancelled();
  }
  memory.post(memory.own().finished, call.number);
  for (int other = 0; other < call.size; ++other) {
    const bool here =
        call.in_shares() || (call.gives(call.rank) && call.takes(other)) || (by_root.count > 0 && call.gives(other));
    if (other != call.rank && here) co_await memory.until(memory.of(other).finished, call.number, other);
  }
  co_return Status();
}

}  // namespace tutti::shm
