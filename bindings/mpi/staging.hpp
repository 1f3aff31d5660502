// One side of a call that only moves, as plain bytes: the program's memory where the data lie there as they travel,
// else a copy that MPI packs and unpacks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bindings/mpi/call.hpp"

namespace tutti::preload {

/// Memory for copies, from a pool that keeps what was given back. Movable.
class Scratch {
 public:
  Scratch() noexcept = default;
  explicit Scratch(std::size_t bytes);
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  ~Scratch();
  std::byte* data() const noexcept;

  struct Block;

 private:
  Block* block_ = nullptr;
};

class Side {
 public:
  /// `blocks` blocks of part.count elements each, or of part.counts[i]. Throws Error{invalid} where a count is
  /// negative.
  Side(const Part& part, int blocks, MPI_Comm comm);

  std::size_t bytes() const noexcept { return total_; }
  std::span<const std::size_t> blocks() const noexcept { return blocks_; }
  /// The bytes, one block after the other; loaded where they are to be read.
  std::byte* data() const noexcept { return direct_ ? direct_data_ : copy_.data(); }
  std::byte* block(int i) const noexcept { return data() + offset_of(i); }

  /// Copies into scratch what is not direct: everything, or one block.
  void load();
  void load(int block);
  /// Copies back what is not direct.
  void store();

  /// All of the data, direct or not, into `copy` (bytes()), and from there back.
  void copy_out(std::byte* copy) const;
  void copy_in(const std::byte* copy) const;

 private:
  std::size_t offset_of(int block) const noexcept;
  std::byte* place_of(int block) const noexcept;
  bool is_direct() noexcept;
  void pack(int block, std::byte* into) const;
  void unpack(int block, const std::byte* from) const;
  /// Calls move(elements, place in the packed bytes, n, room in bytes, &position) until the block is done; it returns
  /// what MPI_Pack or MPI_Unpack did.
  template <class Move>
  void in_runs(int block, const Move& move) const;

  const Part part_;
  std::vector<std::int64_t> counts_, displs_;  // of the program's lists, which may go before a request ends
  const MPI_Comm comm_;
  const std::size_t size_;
  const std::int64_t extent_;
  const bool contiguous_;
  std::vector<std::size_t> blocks_;
  std::size_t total_ = 0;
  bool direct_ = false;
  std::byte* direct_data_ = nullptr;
  Scratch copy_;
};

}  // namespace tutti::preload
