// DirectCall: a collective as the engines see it, and what each rank gives and takes of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/core/collective.hpp"
#include "transports/core/copy.hpp"
#include "transports/core/layout.hpp"
#include "transports/shm/room.hpp"

namespace tutti::shm {

/// Of a host that play together at most.
inline constexpr int most_ranks = 64;

/// `count` elements from `at` on.
struct Part {
  std::size_t at = 0, count = 0;
};

/// What the caller names, of engines between which the buffers decide.
enum class Insisted { nothing, rounds, direct };

/// Bytes here are bytes; the rest is elements.
struct DirectCall {
  DirectCall() = default;
  DirectCall(const Collective& collective, const Room& room);

  /// By kind, size, count and width: what it has to do with caches.
  void measure() noexcept;
  /// Of this call or of one that is otherwise alike; chooses how results are written.
  void set_buffers(const std::byte* given_here, std::byte* result) noexcept {
    in = given_here;
    out = result;
    if (fills_caches) write = best_write();
  }

  Kind kind = Kind::barrier;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int root = 0, rank = 0, size = 1;
  std::size_t count = 0;  ///< per block
  std::size_t width = 1;
  Fold fold;                 ///< without the division
  double divisor = 1.0;      ///< of the last fold
  std::uint64_t number = 0;  ///< of the call, from 1
  std::uint64_t signature = 0;
  std::uint64_t way = 0;        ///< which engine begins, times 4; plus what is insisted on
  std::uint64_t stamp = 0;      ///< of all these
  std::uint64_t round = 0;      ///< the first that is this call's, if it goes by rounds
  std::size_t touched = 0;      ///< bytes of all ranks' buffers, out of place
  bool fills_caches = false;    ///< that is as much as the ranks' caches hold, or nearly
  bool vast = false;            ///< that is more than any cache is believed to hold; alike on all ranks
  Write write = Write::cached;  ///< of results: past the caches where these cannot hold all, if all call alike
  std::size_t cache_bytes = 0;  ///< of the ranks' third-level caches; 0: unknown
  std::size_t slot_room = 0;    ///< bytes of the room's slots

  std::size_t bytes() const noexcept { return count * width; }  ///< of one block
  bool insists_on(Insisted engine) const noexcept { return way % 4 == static_cast<std::uint64_t>(engine); }
  bool at_root() const noexcept { return rank == root; }
  bool folds() const noexcept { return tutti::folds(kind); }

  /// Whether `other` has something that ranks need; whether `other` needs what others have.
  bool gives(int other) const noexcept { return !only_root_gives(kind) || other == root; }
  bool takes(int other) const noexcept {
    if (kind == Kind::broadcast) return other != root;
    return !only_root_takes(kind) || other == root;
  }
  /// Whether somebody but this rank takes.
  bool others_take() const noexcept { return size > 1 && !(only_root_takes(kind) && at_root()); }
  /// Whether the root has a block that it gives to itself alone.
  bool root_keeps() const noexcept { return kind == Kind::scatter || kind == Kind::gather; }
  /// Blocks of what a rank gives: one, or one for each rank.
  std::size_t blocks_given() const noexcept { return kind == Kind::barrier ? 0 : blocks_in(kind, size); }
  std::size_t given_bytes() const noexcept { return blocks_given() * bytes(); }
  std::size_t out_bytes() const noexcept { return blocks_out(kind, size) * bytes(); }
  /// Whether others had better not write to this rank's buffers, though they could: lines of a result that its owner
  /// has read since are slower to take than those of slots. In place, who writes them has just read them.
  bool keeps_buffers() const noexcept {
    const std::size_t small = (std::size_t{512} << 10) / static_cast<std::size_t>(size);
    return kind == Kind::allreduce && in != out && bytes() <= small && !insists_on(Insisted::direct);
  }
  /// Whether every rank folds a share of the whole, for all or for the root: always in direct, mostly in rounds.
  bool in_shares() const noexcept { return kind == Kind::allreduce || kind == Kind::reduce; }
  /// Elements before what is for rank `to` in what a rank gives; before what `from` gives, in `out`.
  std::size_t given_at(int to) const noexcept { return blocks_given() > 1 ? static_cast<std::size_t>(to) * count : 0; }
  std::size_t taken_at(int from) const noexcept {
    return has_blocks_out(kind) ? static_cast<std::size_t>(from) * count : 0;
  }
  const std::byte* given() const noexcept { return kind == Kind::broadcast ? out : in; }

  /// Copies to where a result belongs.
  void deliver(std::byte* into, const std::byte* from, std::size_t n) const noexcept {
    write == Write::streaming ? copy_streaming(into, from, n) : fetch(into, from, n);
  }

 private:
  Write best_write() const noexcept;
  // Ranks.
  std::size_t givers() const noexcept { return only_root_gives(kind) ? 1 : static_cast<std::size_t>(size); }
  std::size_t takers() const noexcept { return kind == Kind::gather ? 1 : static_cast<std::size_t>(size); }
  // Of what this rank gives, what lies where its result goes: in place, all that is in both; else nothing.
  std::size_t shared_bytes() const noexcept;
};

/// The share of rank `index` of `size` in `count` elements, cut where cache lines end if they begin with one.
Part share(std::size_t count, std::size_t width, int index, int size) noexcept;

/// What is handed on in one go, from the first cache.
inline constexpr std::size_t fold_bytes = std::size_t{8} << 10;

/// By rank; the rest is not used.
template <class T>
using ByRank = std::array<T, most_ranks>;

/// Where a result goes, and how.
struct Target {
  std::byte* data = nullptr;
  Write write = Write::cached;
};

/// Every target = the sources, of which there is one for each rank, folded in the order of the ranks. A target may be a
/// source (exactly); otherwise it overlaps none, and no other target. `sources` are moved on.
void fold_in_order(const DirectCall& call, std::span<const Target> into, std::size_t bytes,
                   ByRank<const std::byte*>& sources);

/// The same; `given(r)` is where rank r's `bytes` bytes lie.
template <class Given>
void fold_in_order(const DirectCall& call, std::span<const Target> into, std::size_t bytes, Given given) {
  ByRank<const std::byte*> sources;
  for (int rank = 0; rank < call.size; ++rank) sources[static_cast<std::size_t>(rank)] = given(rank);
  fold_in_order(call, into, bytes, sources);
}
template <class Given>
void fold_in_order(const DirectCall& call, const Target& into, std::size_t bytes, Given given) {
  fold_in_order(call, std::span(&into, 1), bytes, given);
}

}  // namespace tutti::shm
