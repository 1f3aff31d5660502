#include "transports/shm/call.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "transports/causes.hpp"
#include "transports/core/host.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {
namespace {

// Three quarters of the caches: results are written with non-temporal stores if the buffers exceed this.
constexpr std::size_t nearly_full(std::size_t bytes) noexcept { return bytes / 4 * 3; }

constexpr std::size_t usual_cache = std::size_t{32} << 20;

}  // namespace

ShmCall::ShmCall(const Collective& collective, const GroupMemory& memory)
    : kind(collective.kind),
      root(collective.root),
      rank(memory.rank()),
      size(memory.size()),
      count(block_count(collective, memory.size())),
      width(size_of(collective.in.dtype)),
      fold{collective.in.dtype, collective.op.op, 1.0},
      divisor(collective.op.op == Op::avg ? memory.size() : 1.0),
      cache_bytes(memory.cache_bytes()),
      slot_room(memory.slot_bytes()) {
  measure();
  set_buffers(collective.in.data, collective.out.data);
}

// Approximate: the result of a reduce counts for every rank, because that measured faster.
void ShmCall::measure() noexcept {
  touched = givers() * given_bytes() + takers() * out_bytes();
  if (cache_bytes == 0) cache_bytes = usual_cache;
  fills_caches = touched > nearly_full(cache_bytes);
  vast = touched > most_cache_bytes;
}

// Lines that were just read are cheap to write; others must be fetched first, unless non-temporal stores are used.
Write ShmCall::best_write() const noexcept {
  const std::size_t twice = shared_bytes(), once = touched - std::min(givers(), takers()) * twice;
  const bool overwritten = twice == out_bytes() && kind != Kind::broadcast;
  return once > (overwritten ? cache_bytes : nearly_full(cache_bytes)) ? Write::streaming : Write::cached;
}

std::size_t ShmCall::shared_bytes() const noexcept {
  if (kind == Kind::reduce) return 0;  // depends on the root's buffers, which only the root knows
  const auto gives_at = reinterpret_cast<std::uintptr_t>(given()), takes_at = reinterpret_cast<std::uintptr_t>(out);
  const std::uintptr_t begin = std::max(gives_at, takes_at);
  const std::uintptr_t end = std::min(gives_at + given_bytes(), takes_at + out_bytes());
  return end > begin ? end - begin : 0;
}

Part share(std::size_t count, std::size_t width, int index, int size) noexcept {
  constexpr std::size_t line = 64;
  const std::size_t whole = std::max<std::size_t>(1, line / width);  // elements per cache line
  const std::size_t lines = (count + whole - 1) / whole;
  const auto n = static_cast<std::size_t>(size), i = static_cast<std::size_t>(index);
  const auto begin = [&](std::size_t part) { return std::min(count, (lines * part / n) * whole); };
  return {begin(i), begin(i + 1) - begin(i)};
}

// With several targets, reduces a run of bytes and copies it to each target before the next run. If the first target is
// written with non-temporal stores, runs are short, so that these stores overlap with the loads of the next run.
void fold_in_order(const ShmCall& call, std::span<const Target> into, std::size_t bytes,
                   ByRank<const std::byte*>& sources) {
  const auto all = std::span(sources).first(static_cast<std::size_t>(call.size));
  Fold fold = call.fold;
  fold.divisor = call.divisor;
  if (into.size() == 1) return fold.of(into[0].data, all, bytes, into[0].write);
  constexpr std::size_t short_run = 1024, line = 64;
  alignas(line) std::array<std::byte, short_run> run;
  const bool in_between = into[0].write == Write::streaming;
  const bool streaming = std::ranges::find(into, Write::streaming, &Target::write) != into.end();
  const std::size_t most = in_between ? short_run : fold_bytes;
  // Runs end at cache line boundaries of the last target, so that its lines are written whole.
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(into.back().data) % line / call.width * call.width;
  std::size_t n = std::min(streaming ? most - past_line : most, bytes);
  for (std::size_t at = 0; at < bytes; at += n, n = std::min(most, bytes - at)) {
    std::byte* const folded = in_between ? run.data() : into[0].data + at;
    fold.of(folded, all, n);
    for (const auto& [data, write] : into)
      if (data + at != folded)
        write == Write::streaming ? copy_unordered(data + at, folded, n) : fetch(data + at, folded, n);
    for (const std::byte*& source : all) source += n;
  }
  if (streaming) order_copies();
}

// ---- publishing a call, and detecting a mismatch with another rank's -----------------------------

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
