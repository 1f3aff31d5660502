// Packing: selects adjacent calls to send as one, and packs their buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/collective.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti {

/// The number of calls at the front of `calls` to send as one, at least 1: calls with the same kind, dtype, operator
/// and root whose buffers, with all blocks, have at most `most_bytes` bytes together. Depends only on what is equal
/// on all ranks. Never packed: v-forms, premul_sum (its factors may differ), sends, barriers, and calls on device
/// memory.
std::size_t packed_together(std::span<const Collective> calls, int size, std::size_t most_bytes) noexcept;

/// One call that replaces several. Block i of its `in` is the concatenation of block i of their `in`s; the same for
/// `out`.
class Packing {
 public:
  /// Copies the inputs. `calls` are valid, and their buffers are borrowed until unpack().
  Packing(std::span<const Collective> calls, const Group& group);
  /// Copies the result into the buffers of the packed calls.
  void unpack();
  Collective& call() noexcept { return call_; }

 private:
  struct Piece {
    std::byte* data;
    std::size_t bytes;  // bytes per block
  };
  enum class Way : bool { in, out };
  void copy(const std::vector<Piece>& pieces, std::size_t blocks, std::byte* packed, Way way) const;

  Collective call_;
  std::vector<Piece> in_, out_;  // empty if this rank does not use that buffer or nothing is copied
  std::size_t in_blocks_ = 1, out_blocks_ = 1;
  std::vector<std::byte> memory_;
};

}  // namespace tutti
