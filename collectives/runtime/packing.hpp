// Packing: which of several calls travel as one, and their bytes side by side.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/collective.hpp"

namespace tutti {

/// How many calls at the beginning of `calls` travel as one: neighbours of one kind, dtype, operator and root that have
/// at most `most_bytes` together, each rank's side with all blocks. At least 1. Looks only at what all ranks know
/// alike; v-forms, premul_sum, whose factors may differ, sends, barriers and calls on device memory are not packed.
std::size_t packed_together(std::span<const Collective> calls, int size, std::size_t most_bytes) noexcept;

/// One call in the place of several. Block i of its `in` is block i of all their `in`s, one after the other; `out`
/// likewise.
class Packing {
 public:
  /// Copies what goes out. `calls` have been checked; their buffers are borrowed until unpack().
  Packing(std::span<const Collective> calls, const Group& group);
  /// Copies what has come to where it belongs.
  void unpack();
  Collective& call() noexcept { return call_; }

 private:
  struct Piece {
    std::byte* data;
    std::size_t bytes;  // of one block
  };
  enum class Way : bool { in, out };
  void copy(const std::vector<Piece>& pieces, std::size_t blocks, std::byte* packed, Way way) const;

  Collective call_;
  std::vector<Piece> in_, out_;  // empty where this rank has no such side, or it is not copied
  std::size_t in_blocks_ = 1, out_blocks_ = 1;
  std::vector<std::byte> memory_;
};

}  // namespace tutti
