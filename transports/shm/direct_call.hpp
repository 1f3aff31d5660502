// DirectCall: a collective as the engines see it, and what each rank gives and takes of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transports/core/collective.hpp"
#include "transports/shm/room.hpp"

namespace tutti::shm {

/// `count` elements from `at` on.
struct Part {
  std::size_t at = 0, count = 0;
};

/// Bytes here are bytes; the rest is elements.
struct DirectCall {
  DirectCall() = default;
  DirectCall(const Collective& collective, const Room& room);

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
  std::uint64_t stamp = 0;  ///< of both
  std::uint64_t round = 0;  ///< the first that is this call's, if it goes by rounds

  std::size_t bytes() const noexcept { return count * width; }  ///< of one block
  bool at_root() const noexcept { return rank == root; }
  bool folds() const noexcept {
    return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
  }

  /// Whether `other` has something that ranks need; whether `other` needs what others have.
  bool gives(int other) const noexcept {
    return kind == Kind::broadcast || kind == Kind::scatter ? other == root : true;
  }
  bool takes(int other) const noexcept {
    if (kind == Kind::broadcast) return other != root;
    return kind == Kind::reduce || kind == Kind::gather ? other == root : true;
  }
  /// Blocks of what a rank gives: one, or one for each rank.
  std::size_t blocks_given() const noexcept {
    const bool each = kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
    return kind == Kind::barrier ? 0 : each ? static_cast<std::size_t>(size) : 1;
  }
  std::size_t given_bytes() const noexcept { return blocks_given() * bytes(); }
  std::size_t out_bytes() const noexcept {
    const bool each = kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
    return (each ? static_cast<std::size_t>(size) : 1) * bytes();
  }
  const std::byte* given() const noexcept { return kind == Kind::broadcast ? out : in; }
};

/// The share of rank `index` of `size` in `count` elements, cut where cache lines end if they begin with one.
Part share(std::size_t count, std::size_t width, int index, int size) noexcept;

/// into = what all ranks give, folded in the order of the ranks; `given(r)` is where rank r's `bytes` bytes lie.
/// `into` may be one of them. Where `copy` is not null, every block goes there too while it is in the first cache.
template <class Given>
void fold_in_order(const DirectCall& call, std::byte* into, std::size_t bytes, Given given, std::byte* copy = nullptr) {
  constexpr std::size_t block_bytes = 8 << 10;
  alignas(64) std::byte between[block_bytes];
  Fold last = call.fold;
  last.divisor = call.divisor;
  for (std::size_t at = 0; at < bytes; at += block_bytes) {
    const std::size_t n = std::min(block_bytes, bytes - at);
    const std::byte* sum = given(0) + at;
    for (int other = 1; other < call.size; ++other) {
      const bool ends = other + 1 == call.size;
      std::byte* const to = ends ? into + at : between;
      (ends ? last : call.fold)(to, sum, given(other) + at, n);
      sum = to;
    }
    if (copy != nullptr) std::memcpy(copy + at, into + at, n);
  }
}

}  // namespace tutti::shm
