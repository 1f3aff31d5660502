// Slices: how a collective on device memory is cut into collectives on slots of host memory. Nothing here moves.
#pragma once

#include <cstddef>
#include <vector>

#include "transports/core/collective.hpp"

namespace tutti::staged {

/// What is copied between a device buffer and a slot. All in bytes.
struct Piece {
  std::size_t device = 0;  ///< from the buffer's begin
  std::size_t host = 0;    ///< from the begin of the slot's half
  std::size_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

/// One slice: the collective on the slot, and what goes in before and out after it.
struct Slice {
  Collective call;  ///< its buffers have no addresses yet: `in` and `out` begin where their halves of the slot do
  std::vector<Piece> in, out;
  bool in_place = false;  ///< the slot has one half: `in` is `out`
};

/// Whether each rank knows its own counts alone: alltoallv; but for the root, gatherv and scatterv.
inline bool has_own_counts(const Collective& call) noexcept {
  return call.variable && (call.kind == Kind::alltoall || call.kind == Kind::gather || call.kind == Kind::scatter);
}

/// Cuts one call, as `rank` of `size` makes it. Slices are equal in number on all ranks, in bytes bounded by
/// `slot_bytes` for each half, as long as that has room for an element of every rank.
class Slicing {
 public:
  /// Where ranks do not know one another's counts, `largest` is the largest of all; else it is not read.
  Slicing(const Collective& call, int rank, int size, std::size_t slot_bytes, std::size_t largest = 0);

  std::size_t slices() const noexcept { return slices_; }
  Slice slice(std::size_t number) const;

  /// Where `in` of the call begins: of a broadcast, that is `out`.
  static const std::byte* source(const Collective& call) noexcept {
    return call.kind == Kind::broadcast ? call.out.data : call.in.data;
  }

 private:
  std::size_t blocks(bool of_in) const noexcept;
  std::size_t whole(bool of_in, std::size_t block) const noexcept;
  /// The slice's part of the blocks of a side: what is copied, and its counts.
  std::vector<std::size_t> cut(bool of_in, std::size_t number, std::vector<Piece>& pieces) const;

  const Collective& call_;
  const std::size_t rank_, size_;
  std::size_t each_ = 1;  // elements of a block that go in one slice
  std::size_t slices_ = 1;
};

}  // namespace tutti::staged
