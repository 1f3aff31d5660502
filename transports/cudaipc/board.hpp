// Board: host memory that the ranks of one communicator see, a line for each: what need not be a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::cudaipc {

/// Each rank writes its own line alone.
class Board {
 public:
  /// Where another process finds a board, and whose line it is.
  struct Place {
    std::int64_t process = 0, fd = -1;
  };

  Board() = default;
  /// The first rank makes it. Throws Error{resource}.
  static Board make(int ranks);
  /// The others, while the first one has it. Throws Error{unsupported} where that process's files are hidden.
  static Board open(const Place& place, int ranks);
  Place place() const noexcept;

  /// Pieces of calls whose slots this rank has read, all of them; only grows.
  void have_read(int own, std::uint64_t pieces) noexcept { line(own).read.store(pieces, std::memory_order_release); }
  std::uint64_t read_by(int rank) const noexcept { return line(rank).read.load(std::memory_order_acquire); }
  /// After a failure: nothing of this rank reads or writes others' memory any more.
  void be_quiet(int own) noexcept { line(own).quiet.store(1, std::memory_order_release); }
  bool is_quiet(int rank) const noexcept { return line(rank).quiet.load(std::memory_order_acquire) != 0; }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint64_t> read;
    std::atomic<std::uint32_t> quiet;
  };
  static Board map(int fd, int ranks);
  Line& line(int rank) const noexcept { return lines_.get()[rank]; }

  Descriptor fd_;  // of the first rank
  std::shared_ptr<Line> lines_;
};

}  // namespace tutti::cudaipc
