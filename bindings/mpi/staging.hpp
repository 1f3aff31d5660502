// One buffer of a call that moves data, as plain bytes: the program's memory if the data is contiguous there, else a
// copy made with MPI_Pack and MPI_Unpack.
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
  /// that cannot be used, MPI_IN_PLACE, and null where there is data.
  Side(const Part& part, int blocks);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side();

  /// Keeps what store() needs of the type, which the program may free before a nonblocking call is done.
  void hold_type();

  std::size_t bytes() const noexcept { return total_; }
  std::span<const std::size_t> blocks() const noexcept { return blocks_; }
  /// The bytes of all blocks, contiguous. For reading, call load() first.
  std::byte* data() const noexcept { return direct_ ? direct_data_ : copy_.data(); }
  std::byte* block(int i) const noexcept { return data() + offset_of(i); }

  /// Packs the data into the copy, if there is one: everything, or one block.
  void load();
  void load(int block);
  /// Unpacks the copy, if there is one, into the program's memory.
  void store();

  /// Packs all of the data into `copy`, of bytes() bytes, and unpacks it from there.
  void copy_out(std::byte* copy) const;
  void copy_in(const std::byte* copy) const;

 private:
  std::size_t offset_of(int block) const noexcept;
  std::byte* place_of(int block) const noexcept;
  bool is_direct() noexcept;
  void check_places() const;
  /// Commits the type, and uses it from now on. `created` is the result of the call that made it of the present type.
  void hold(int created, MPI_Datatype type);
  void give_address();
  void pack(int block, std::byte* into) const;
  void unpack(int block, const std::byte* from) const;
  /// Calls move(elements, offset in the packed bytes, n, size in bytes, &position) repeatedly until the block is done.
  /// `move` returns the result of MPI_Pack or MPI_Unpack.
  template <class Move>
  void in_runs(int block, const Move& move) const;

  Part part_;
  // copied from the program's arrays, which need not outlive a nonblocking call
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
