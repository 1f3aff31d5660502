// Slices: how a collective on device memory is divided into collectives on slots of host memory. Computes only;
// copies nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/collective.hpp"

namespace tutti::staged {

/// A copy between a device buffer and a slot. All fields in bytes.
struct Piece {
  std::size_t device = 0;  ///< from the beginning of the buffer
  std::size_t host = 0;    ///< from the beginning of the slot's half
  std::size_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

/// One slice: the collective on the slot, and the copies before and after it.
struct Slice {
  Collective call;  ///< without addresses: `in` and `out` start at the beginning of their halves of the slot
  std::vector<Piece> in, out;
  bool in_place = false;  ///< the slot has one half, and `in` is `out`
};

/// True if ranks know only their own counts: all ranks in alltoallv, all ranks except the root in gatherv and scatterv.
inline bool has_own_counts(const Collective& call) noexcept {
  return call.variable && (call.kind == Kind::alltoall || call.kind == Kind::gather || call.kind == Kind::scatter);
}

/// Divides one call of rank `rank` of `size`. All ranks have the same number of slices. A slice needs at most
/// `slot_bytes` bytes per half, provided that `slot_bytes` has room for one element of every rank.
class Slicing {
 public:
  /// `largest` is the largest count of all ranks; used only if has_own_counts().
  Slicing(const Collective& call, int rank, int size, std::size_t slot_bytes, std::size_t largest = 0);

  std::size_t slices() const noexcept { return slices_; }
  Slice slice(std::size_t number) const;

  /// The beginning of the call's input: for broadcast, of `out`.
  static const std::byte* source(const Collective& call) noexcept {
    return call.kind == Kind::broadcast ? call.out.data : call.in.data;
  }

 private:
  std::size_t blocks(bool of_in) const noexcept;
  std::size_t whole(bool of_in, std::size_t block) const noexcept;
  /// The part of the blocks of one buffer in slice `number`: the copies, and its counts.
  std::vector<std::size_t> cut(bool of_in, std::size_t number, std::vector<Piece>& pieces) const;

  const Collective& call_;
  const std::size_t rank_, size_;
  std::size_t each_ = 1;  // elements per block in one slice
  std::size_t slices_ = 1;
};

}  // namespace tutti::staged
