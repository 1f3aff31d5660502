// CMA (cross memory attach): in a scatter, every rank copies its block directly from the root's buffer, by
// process_vm_readv, or by plain loads if the buffer is in the root's arena.
//
// Data that pass through slots are copied twice, and the root makes the first copy alone. Here all receivers copy once,
// in parallel, and wait only for the root. For other kinds, in which all ranks stage or receive in parallel, the
// kernel's page lookups cost more than the second copy.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "transports/core/barrier.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{256} << 10;  // bytes copied at a time
constexpr std::size_t least_bytes = std::size_t{16} << 10;   // minimum bytes of a block

Status unreadable(const GroupMemory& memory, const ShmCall& call, int error) {
  const int root = memory.world_rank(call.root);
  return Status::failure(Code::resource,
                         "rank " + std::to_string(memory.world_rank(call.rank)) + " cannot read what rank " +
                             std::to_string(root) + " scatters: " + std::strerror(error) +
                             ". If that stays so, name the algorithm 'shm/two_copy'.",
                         root);
}

// True if the kernel can read the first and the last byte of the buffer. It cannot read device memory.
bool is_readable(const std::byte* data, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  std::byte seen;
  for (const std::uintptr_t end : {at, at + bytes - 1})
    if (read_memory_of(::getpid(), end, &seen, 1) != 0) return false;
  return true;
}

// Copies a piece of the root's buffer; returns 0 or an errno.
int copy_from_root(const GroupMemory& memory, const ShmCall& call, std::size_t from, std::byte* into,
                   std::size_t bytes) {
  const CallLine& line = memory.call_of(call.root, call.number);
  if (line.in == 0) return memory.read(call.root, line.at + from, into, bytes);
  call.deliver(into, memory.reach(call.root, line.in) + from, bytes);
  return 0;
}

// The root: publishes its buffer, copies its own block, and waits until all others have copied theirs.
EngineTask show_buffer(GroupMemory& memory, const ShmCall& call) {
  while (const auto late = memory.who_is_behind(call.number)) co_await memory.until(*late);
  CallLine& line = write_line(memory, call);
  line.in = memory.offset_of(call.in, call.given_bytes());
  const bool by_kernel = line.in == 0 && is_readable(call.in, call.given_bytes());
  line.at = by_kernel ? reinterpret_cast<std::uintptr_t>(call.in) : 0;
  line.core = -1;
  memory.post(line.stamp, call.stamp);
  const bool is_read = can_play_cma(memory, call);
  const std::byte* const mine = call.in + call.given_at(call.rank) * call.width;
  for (std::size_t at = 0; is_read && call.out != mine && at < call.bytes(); at += chunk_bytes) {
    call.deliver(call.out + at, mine + at, std::min(chunk_bytes, call.bytes() - at));
    co_await memory.breathe();
  }
  for (int other = 0; other < call.size; ++other) {
    if (other == call.rank) continue;
    co_await memory.until(memory.call_of(other, call.number).stamp, least_stamp(call.number), other);
    if (Status same = compare_calls(memory, call, other); !same.ok()) co_return same;
    memory.has_entered(other, call.number);
    if (is_read) co_await memory.until(memory.of(other).finished, call.number, other);
  }
  co_return Status();
}

// A rank other than the root: copies its block.
EngineTask read_block(GroupMemory& memory, const ShmCall& call) {
  announce(memory, call);
  co_await memory.until(memory.call_of(call.root, call.number).stamp, least_stamp(call.number), call.root);
  if (Status same = compare_calls(memory, call, call.root); !same.ok()) co_return same;
  memory.has_entered(call.root, call.number);
  if (!can_play_cma(memory, call)) co_return Status();
  const std::size_t mine = call.given_at(call.rank) * call.width;
  bool ended = false;
  for (std::size_t at = 0; at < call.bytes(); at += chunk_bytes) {
    const int error = copy_from_root(memory, call, mine + at, call.out + at, std::min(chunk_bytes, call.bytes() - at));
    light_barrier();
    // A root that was cancelled may have reused or freed its buffer while it was read.
    if (memory.somebody_cancelled()) co_await memory.until_cancelled();
    ended = error == ESRCH;  // a process loses its memory shortly before lives() is false
    if (error != 0 && !ended && memory.lives(call.root)) co_return unreadable(memory, call, error);
    if (error != 0) break;
    co_await memory.breathe();
  }
  // If the root has ended, another process may have its number, and the data may be of that process. Waits until the
  // failure is reported.
  if (ended || !memory.lives(call.root)) co_await memory.until(memory.of(call.root).never, 1, call.root);
  memory.post(memory.own().finished, call.number);
  co_return Status();
}

}  // namespace

bool favours_cma(const GroupMemory& memory, const ShmCall& call) noexcept {
  return call.kind == Kind::scatter && memory.all_read_all() && call.size > 2 && call.bytes() >= least_bytes;
}

bool can_play_cma(const GroupMemory& memory, const ShmCall& call) noexcept {
  const CallLine& line = memory.call_of(call.root, call.number);
  return line.in != 0 || line.at != 0;
}

EngineTask play_cma(GroupMemory& memory, const ShmCall& call) {
  return call.at_root() ? show_buffer(memory, call) : read_block(memory, call);
}

}  // namespace tutti::shm
