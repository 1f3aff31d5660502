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

/// On one host: a page of memory that the launching process made, so that no implementation's own barrier is in the
/// measurement. `path` is the memory as make_shared_memory() named it.
std::unique_ptr<Board> open_shared_board(const std::string& path, int rank, int ranks);

/// Makes the memory and returns a path by which child processes can open it while this process (also after
/// exec) lives. Nothing is left behind when it ends.
std::string make_shared_memory(int ranks);

/// The most iterations that one call of durations() takes.
inline constexpr std::size_t max_iterations = 1 << 16;

/// Children find the path in this environment variable.
inline constexpr const char* board_variable = "BENCH_BOARD";

}  // namespace tutti::bench
