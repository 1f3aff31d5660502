// One buffer of a call that moves data, as plain bytes: the program's memory if its data is contiguous, else a copy
// made with MPI_Pack and MPI_Unpack.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bindings/mpi/call.hpp"

namespace tutti::preload {

/// Memory for copies, from a pool that keeps freed blocks. Movable.
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
  /// `blocks` blocks of part.count elements each, or of part.counts[i]. Throws BadArgument for a negative count, a type
  /// that cannot be used, MPI_IN_PLACE, and a null address for a buffer that is not empty.
  Side(const Part& part, int blocks);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side();

  /// Makes store() independent of the program's datatype, which the program may free before a nonblocking call is done.
  void hold_type();

  std::size_t bytes() const noexcept { return total_; }
  std::span<const std::size_t> blocks() const noexcept { return blocks_; }
  /// The bytes of all blocks, contiguous. For reading, call load() first.
  std::byte* data() const noexcept { return direct_ ? direct_data_ : copy_.data(); }
  std::byte* block(int i) const noexcept { return data() + offset_of(i); }

  /// Packs all blocks, or one block, into the copy; does nothing if there is no copy.
  void load();
  void load(int block);
  /// Unpacks the copy into the program's memory; does nothing if there is no copy.
  void store();

  /// copy_out() packs all of the data into `copy`, which has bytes() bytes; copy_in() unpacks it.
  void copy_out(std::byte* copy) const;
  void copy_in(const std::byte* copy) const;

 private:
  std::size_t offset_of(int block) const noexcept;
  std::byte* place_of(int block) const noexcept;
  bool is_direct() noexcept;
  void check_places() const;
  /// Commits `type` and uses it from now on. `created` is the result of the MPI call that made it from the old type.
  void hold(int created, MPI_Datatype type);
  void give_address();
  void pack(int block, std::byte* into) const;
  void unpack(int block, const std::byte* from) const;
  /// Calls move(elements, offset in the packed bytes, n, size in bytes, &position) repeatedly until the block is done.
  /// `move` returns the result of MPI_Pack or MPI_Unpack.
  template <class Move>
  void in_runs(int block, const Move& move) const;

  Part part_;
  // copies of the program's arrays, which the program may change during a nonblocking call
  std::vector<std::int64_t> counts_, displs_;
  const std::size_t size_;
  const std::int64_t extent_;
  const bool contiguous_;
  std::vector<std::size_t> blocks_;
  std::size_t total_ = 0;
  bool direct_ = false;
  bool holds_type_ = false;
  std::byte* direct_data_ = nullptr;
  Scratch copy_;
};

}  // namespace tutti::preload
