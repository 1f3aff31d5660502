// Board: the barrier and the stopwatch of a measurement, the same for every implementation that is measured.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::bench {

/// When one rank entered and left one iteration, in nanoseconds of the host's monotonic clock.
struct Stamp {
  std::int64_t entered = 0;
  std::int64_t left = 0;
};
Stamp now_stamp() noexcept;  ///< both are now

/// All calls are collective among the ranks that measure.
class Board {
 public:
  virtual ~Board() = default;
  virtual void barrier() = 0;
  /// Seconds of each iteration: the last exit of any rank minus the first entry.
  virtual std::vector<double> durations(std::span<const Stamp> stamps) = 0;
  virtual std::uint64_t sum(std::uint64_t value) = 0;
  virtual std::int64_t from_first(std::int64_t value) = 0;  ///< rank 0's
};

/// On one host: memory that the launching process made, so that no implementation's own barrier is in the
/// measurement. `path` is the memory as make_shared_memory() named it. A rank that waits looks after the others: when
/// one of them has died, or has left the board, its calls throw Error{peer_lost}. It spins for some milliseconds and
/// then sleeps.
std::unique_ptr<Board> open_shared_board(const std::string& path, int rank, int ranks);

struct SharedMemory {
  int fd = -1;       ///< close-on-exec; the caller's to close
  std::string path;  ///< by which any process of the host can open it while this process keeps `fd`
};
SharedMemory make_shared_memory(int ranks);

/// The most iterations that one call of durations() takes.
inline constexpr std::size_t max_iterations = 1 << 16;

}  // namespace tutti::bench
