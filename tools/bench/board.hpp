// Board: the barrier and the stopwatch of a measurement, which are the same for all implementations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::bench {

/// The times when one rank entered and left one iteration, in nanoseconds of the host's monotonic clock.
struct Stamp {
  std::int64_t entered = 0;
  std::int64_t left = 0;
};
Stamp now_stamp() noexcept;  ///< sets both fields to the current time

/// The barrier and the stopwatch of the measuring ranks. All calls are collective among them.
class Board {
 public:
  virtual ~Board() = default;
  virtual void barrier() = 0;
  /// Returns the seconds of each iteration, from the first entry to the last exit of any rank.
  virtual std::vector<double> durations(std::span<const Stamp> stamps) = 0;
  virtual std::uint64_t sum(std::uint64_t value) = 0;
  virtual std::int64_t from_first(std::int64_t value) = 0;  ///< returns rank 0's value
};

/// Opens a board for ranks of one host, in memory that the launching process made. It keeps the implementations' own
/// barriers out of the measurement. `path` is SharedMemory::path. A waiting rank throws Error{peer_lost} if another
/// rank has died or has closed the board. A waiting rank spins for some milliseconds and then sleeps.
std::unique_ptr<Board> open_shared_board(const std::string& path, int rank, int ranks);

struct SharedMemory {
  int fd = -1;       ///< close-on-exec; the caller closes it
  std::string path;  ///< path by which any process of the host can open the memory while this process keeps `fd`
};
SharedMemory make_shared_memory(int ranks);

/// The largest number of stamps that durations() accepts in one call.
inline constexpr std::size_t max_iterations = 1 << 16;

}  // namespace tutti::bench
