// CMA: every rank copies its block of a scatter straight out of the root's buffer (cross memory attach), by the kernel
// where that is ordinary memory.
//
// What goes through slots is copied twice, the first time by the root alone; this once, by all who take. Who takes
// waits for the root, and not for the others. Of other kinds, where all ranks can stage or take at the same time, the
// kernel's looking up of pages costs more than a second copy.
#include <unistd.h>

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
  const int root = room.world_rank(call.root);
  return Status::failure(Code::resource,
                         "rank " + std::to_string(room.world_rank(call.rank)) + " cannot read what rank " +
                             std::to_string(root) + " scatters: " + std::strerror(error) +
                             ". If that stays so, name the algorithm 'shm/rounds'.",
                         root);
}

// Not memory of devices, say. Both ends are looked at, as others will.
bool is_readable(const std::byte* data, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  std::byte seen;
  for (const std::uintptr_t end : {at, at + bytes - 1})
    if (read_memory_of(::getpid(), end, &seen, 1) != 0) return false;
  return true;
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

bool can_play_cma(const Room& room, const DirectCall& call) noexcept {
  const CallLine& line = room.call_of(call.root, call.number);
  return line.in != 0 || line.at != 0;
}

EngineTask play_cma(Room& room, const DirectCall& call) {
  const std::size_t mine = call.given_at(call.rank) * call.width;
  if (call.at_root()) {
    while (const auto late = room.who_is_behind(call.number)) co_await room.until(*late);
    CallLine& line = write_line(room, call);
    line.in = room.offset_of(call.in, call.given_bytes());
    line.at = is_readable(call.in, call.given_bytes()) ? reinterpret_cast<std::uintptr_t>(call.in) : 0;
    line.core = -1;
    room.post(line.stamp, call.stamp);
  } else {
    announce(room, call);
    co_await room.until(room.call_of(call.root, call.number).stamp, least_stamp(call.number), call.root);
    if (Status same = compare_calls(room, call, call.root); !same.ok()) co_return same;
    room.has_entered(call.root, call.number);
  }
  const bool played = can_play_cma(room, call);
  for (std::size_t at = 0; played && at < call.bytes(); at += chunk_bytes) {
    const std::size_t n = std::min(chunk_bytes, call.bytes() - at);
    int error = 0;
    if (!call.at_root())
      error = copy_from_root(room, call, mine + at, call.out + at, n);
    else if (call.out != call.in + mine)
      call.deliver(call.out + at, call.in + mine + at, n);
    light_barrier();
    // A root that was cancelled may have filled its buffer anew, or freed it, while it was read.
    if (room.somebody_cancelled()) co_await room.until_cancelled();
    if (error == ESRCH && !room.lives(call.root)) co_await room.until(room.of(call.root).never, 1, call.root);
    if (error != 0) co_return unreadable(room, call, error);
    co_await room.breathe();
  }
  if (!call.at_root()) {
    // By its number another process may have been read, once it had ended: then the news of that comes.
    if (played && !room.lives(call.root)) co_await room.until(room.of(call.root).never, 1, call.root);
    room.post(room.own().finished, call.number);
    co_return Status();
  }
  for (int other = 0; other < call.size; ++other) {
    if (other == call.rank) continue;
    co_await room.until(room.call_of(other, call.number).stamp, least_stamp(call.number), other);
    if (Status same = compare_calls(room, call, other); !same.ok()) co_return same;
    room.has_entered(other, call.number);
    if (played) co_await room.until(room.of(other).finished, call.number, other);
  }
  co_return Status();
}

}  // namespace tutti::shm
