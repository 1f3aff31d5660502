// Board: host memory shared by the ranks of one communicator, with one line per rank, for state that needs no
// message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::cudaipc {

/// Has one line per rank. Each rank writes only its own line.
class Board {
 public:
  /// Where other processes open a board: /proc/PROCESS/fd/FD.
  struct Place {
    std::int64_t process = 0, fd = -1;
  };

  Board() = default;
  /// Creates a board; called by the first rank. Throws Error{resource}.
  static Board make(int ranks);
  /// Opens the first rank's board, which that rank must still have open. Throws Error{unsupported} if this process may
  /// not open the files of that process.
  static Board open(const Place& place, int ranks);
  Place place() const noexcept;

  /// `pieces`: the number of pieces (contents of one slot) that this rank has read completely; never decreases.
  void have_read(int own, std::uint64_t pieces) noexcept { line(own).read.store(pieces, std::memory_order_release); }
  std::uint64_t read_by(int rank) const noexcept { return line(rank).read.load(std::memory_order_acquire); }
  /// be_quiet(): tells, after a failure, that this rank does not access other ranks' memory any more.
  void be_quiet(int own) noexcept { line(own).quiet.store(1, std::memory_order_release); }
  bool is_quiet(int rank) const noexcept { return line(rank).quiet.load(std::memory_order_acquire) != 0; }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint64_t> read;
    std::atomic<std::uint32_t> quiet;
  };
  static Board map(int fd, int ranks);
  Line& line(int rank) const noexcept { return lines_.get()[rank]; }

  Descriptor fd_;  // on the first rank
  std::shared_ptr<Line> lines_;
};

}  // namespace tutti::cudaipc
