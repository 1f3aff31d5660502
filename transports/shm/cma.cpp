// CMA: every rank copies its block of a scatter straight out of the root's buffer (cross memory attach), by the kernel
// where that is ordinary memory.
//
// What goes through slots is copied twice, the first time by the root alone; this once, by all who take. Who takes
// waits for the root, and not for the others. Of other kinds, where all ranks can stage or take at the same time, the
// kernel's looking up of pages costs more than a second copy.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "transports/core/barrier.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10;  // copied at a time
constexpr std::size_t least_bytes = std::size_t{16} << 10;   // of a block

Status unreadable(const Room& room, const DirectCall& call, int error) {
  const int me = room.world_rank(call.rank);
  return Status::failure(Code::resource,
                         "rank " + std::to_string(me) + " cannot read the memory of rank " +
                             std::to_string(room.world_rank(call.root)) + " any more: " + std::strerror(error) +
                             ". Where the kernel takes that back, name the algorithm 'shm/rounds'.",
                         me);
}

// A piece of the root's buffer; 0, or why not.
int copy_from_root(const Room& room, const DirectCall& call, std::size_t from, std::byte* into, std::size_t bytes) {
  const CallLine& line = room.call_of(call.root, call.number);
  if (line.in == 0) return room.read(call.root, line.at + from, into, bytes);
  call.deliver(into, room.reach(call.root, line.in) + from, bytes);
  return 0;
}

}  // namespace

bool favours_cma(const Room& room, const DirectCall& call) noexcept {
  return call.kind == Kind::scatter && room.all_read_all() && call.size > 2 && call.bytes() >= least_bytes;
}

EngineTask play_cma(Room& room, const DirectCall& call) {
  const std::size_t mine = call.given_at(call.rank) * call.width;
  if (call.at_root()) {
    while (const auto late = room.who_is_behind(call.number)) co_await room.until(*late);
    CallLine& line = write_line(room, call);
    line.in = room.offset_of(call.in, call.given_bytes());
    line.at = reinterpret_cast<std::uintptr_t>(call.in);
    room.post(line.stamp, call.stamp);
    if (call.out != call.in + mine) call.deliver(call.out, call.in + mine, call.bytes());
    for (int other = 0; other < call.size; ++other) {
      if (other == call.rank) continue;
      co_await room.until(room.call_of(other, call.number).stamp, least_stamp(call.number), other);
      if (Status same = compare_calls(room, call, other); !same.ok()) co_return same;
      room.has_entered(other, call.number);
      co_await room.until(room.of(other).finished, call.number, other);
    }
    co_return Status();
  }
  announce(room, call);
  co_await room.until(room.call_of(call.root, call.number).stamp, least_stamp(call.number), call.root);
  if (Status same = compare_calls(room, call, call.root); !same.ok()) co_return same;
  room.has_entered(call.root, call.number);
  for (std::size_t at = 0; at < call.bytes(); at += chunk_bytes) {
    const std::size_t n = std::min(chunk_bytes, call.bytes() - at);
    const int error = copy_from_root(room, call, mine + at, call.out + at, n);
    light_barrier();
    // A root that was cancelled may have filled its buffer anew, or freed it, while it was read.
    if (room.somebody_cancelled()) co_await room.until_cancelled();
    if (error == ESRCH) co_await room.until(room.of(call.root).never, 1, call.root);  // the news of its end
    if (error != 0) co_return unreadable(room, call, error);
    co_await room.breathe();
  }
  room.post(room.own().finished, call.number);
  co_return Status();
}

}  // namespace tutti::shm
