// ShmCall: a collective as the engines see it, and which data each rank sends and receives.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/core/copy.hpp"
#include "transports/core/layout.hpp"
#include "transports/shm/group_memory.hpp"
#include "tutti/collective.hpp"

namespace tutti::shm {

/// Maximum number of ranks of a host in one collective.
inline constexpr int most_ranks = 64;

/// `count` elements starting at element `at`.
struct Part {
  std::size_t at = 0, count = 0;
};

/// The engine that the caller named. For `nothing`, the buffers decide between two-copy and zero-copy.
enum class Insisted { nothing, two_copy, zero_copy };

/// Members with "bytes" in their name count bytes; all others count elements.
struct ShmCall {
  ShmCall() = default;
  ShmCall(const Collective& collective, const GroupMemory& memory);

  /// Sets the members that relate to cache sizes, from kind, size, count and width.
  void measure() noexcept;
  /// Sets the buffers: for this call, or for a later call whose other arguments are equal. Chooses how results are
  /// written.
  void set_buffers(const std::byte* given_here, std::byte* result) noexcept {
    in = given_here;
    out = result;
    if (fills_caches) write = best_write();
  }

  Kind kind = Kind::barrier;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int root = 0, rank = 0, size = 1;
  std::size_t count = 0;  ///< elements per block
  std::size_t width = 1;
  Fold fold;                 ///< without the divisor
  double divisor = 1.0;      ///< applied in the last fold
  std::uint64_t number = 0;  ///< number of the call in its communicator, from 1
  std::uint64_t signature = 0;
  std::uint64_t way = 0;        ///< 4 times the first ShmBackend::Engine, plus the Insisted engine
  std::uint64_t stamp = 0;      ///< hash of the call number and the arguments
  std::uint64_t round = 0;      ///< the first round of this call, if it takes the two-copy engine
  std::size_t touched = 0;      ///< bytes of all ranks' buffers, as if out of place
  bool fills_caches = false;    ///< true if `touched` exceeds 3/4 of `cache_bytes`
  bool vast = false;            ///< true if `touched` exceeds most_cache_bytes; the same on all ranks
  Write write = Write::cached;  ///< how results are written: streaming if the caches cannot hold all buffers
  std::size_t cache_bytes = 0;  ///< total of the ranks' L3 caches; 32 MiB if unknown
  std::size_t slot_room = 0;    ///< bytes of a slot

  std::size_t bytes() const noexcept { return count * width; }  ///< bytes of one block
  bool insists_on(Insisted engine) const noexcept { return way % 4 == static_cast<std::uint64_t>(engine); }
  bool at_root() const noexcept { return rank == root; }
  bool folds() const noexcept { return tutti::folds(kind); }

  /// gives(): true if rank `other` sends data that other ranks need. takes(): true if rank `other` receives data.
  bool gives(int other) const noexcept { return !only_root_gives(kind) || other == root; }
  bool takes(int other) const noexcept {
    if (kind == Kind::broadcast) return other != root;
    return !only_root_takes(kind) || other == root;
  }
  /// True if any other rank receives data.
  bool others_take() const noexcept { return size > 1 && !(only_root_takes(kind) && at_root()); }
  /// True if only the root copies its own block.
  bool root_keeps() const noexcept { return kind == Kind::scatter || kind == Kind::gather; }
  /// Number of blocks that a rank sends: one, or one per rank.
  std::size_t blocks_given() const noexcept { return kind == Kind::barrier ? 0 : blocks_in(kind, size); }
  std::size_t given_bytes() const noexcept { return blocks_given() * bytes(); }
  std::size_t out_bytes() const noexcept { return blocks_out(kind, size) * bytes(); }
  /// True if peers must not use this rank's buffers: in small allreduces out of place. If this rank has read its
  /// previous result, peers write these cache lines more slowly than those of slots. In place, that does not matter,
  /// because the peer that writes has just read the lines itself.
  bool keeps_buffers() const noexcept {
    const std::size_t small = (std::size_t{512} << 10) / static_cast<std::size_t>(size);
    return kind == Kind::allreduce && in != out && bytes() <= small && !insists_on(Insisted::zero_copy);
  }
  /// True if every rank reduces its own share of the result, in allreduce for all ranks and in reduce for the root. The
  /// zero-copy engine always does so, the two-copy engine not in a reduce of at most four ranks.
  bool in_shares() const noexcept { return kind == Kind::allreduce || kind == Kind::reduce; }
  /// Element offset of the block for rank `to` in a rank's input, and of the block from rank `from` in `out`.
  std::size_t given_at(int to) const noexcept { return blocks_given() > 1 ? static_cast<std::size_t>(to) * count : 0; }
  std::size_t taken_at(int from) const noexcept {
    return has_blocks_out(kind) ? static_cast<std::size_t>(from) * count : 0;
  }
  const std::byte* given() const noexcept { return kind == Kind::broadcast ? out : in; }

  /// Copies a part of the result to its place.
  void deliver(std::byte* into, const std::byte* from, std::size_t n) const noexcept {
    write == Write::streaming ? copy_streaming(into, from, n) : fetch(into, from, n);
  }

 private:
  Write best_write() const noexcept;
  // The numbers of ranks whose input, and whose output, count in `touched`.
  std::size_t givers() const noexcept { return only_root_gives(kind) ? 1 : static_cast<std::size_t>(size); }
  std::size_t takers() const noexcept { return kind == Kind::gather ? 1 : static_cast<std::size_t>(size); }
  // The bytes that this rank's input and output have in common; 0 out of place and in a reduce.
  std::size_t shared_bytes() const noexcept;
};

/// The share of rank `index` if `size` ranks divide `count` elements. If the buffer starts at a cache line, shares do.
Part share(std::size_t count, std::size_t width, int index, int size) noexcept;

/// Bytes that are reduced at a time before they are copied on, so that they are still in the L1 cache.
inline constexpr std::size_t fold_bytes = std::size_t{8} << 10;

/// An array with an element per rank; elements beyond the group's ranks are unused.
template <class T>
using ByRank = std::array<T, most_ranks>;

/// The destination of a result and how it is written.
struct Target {
  std::byte* data = nullptr;
  Write write = Write::cached;
};

/// Writes the reduction of the sources, one per rank in rank order, to every target. A target may be exactly one of the
/// sources; otherwise it overlaps no source and no other target. May advance the pointers in `sources`.
void fold_in_order(const ShmCall& call, std::span<const Target> into, std::size_t bytes,
                   ByRank<const std::byte*>& sources);

/// As above; `given(r)` returns the address of rank r's `bytes` bytes.
template <class Given>
void fold_in_order(const ShmCall& call, std::span<const Target> into, std::size_t bytes, Given given) {
  ByRank<const std::byte*> sources;
  for (int rank = 0; rank < call.size; ++rank) sources[static_cast<std::size_t>(rank)] = given(rank);
  fold_in_order(call, into, bytes, sources);
}
template <class Given>
void fold_in_order(const ShmCall& call, const Target& into, std::size_t bytes, Given given) {
  fold_in_order(call, std::span(&into, 1), bytes, given);
}

}  // namespace tutti::shm
