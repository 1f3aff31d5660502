// Plan: what `tutti tune` measures, on how many ranks, at which sizes, and how its time is divided.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/tune/tuner.hpp"
#include "tutti.hpp"
#include "tutti/clock.hpp"

namespace tutti::tune {

struct Plan {
  std::vector<Kind> kinds;
  std::size_t end = 0;                ///< the last size in bytes
  double seconds = 0;                 ///< approximate time for all measurements
  std::vector<std::string> backends;  ///< the backends to try; the same on all ranks
};

/// The distances between sizes.
struct Grid {
  std::size_t factor;
  std::size_t doubled_from;  ///< in bytes; from this size on, sizes double
};

/// Returns 2, 4, 8, ... and `all`.
std::vector<int> numbers_of_ranks(int all);

/// Returns sizes up to `end`, in bytes of one block. If `in` or `out` has a block for every rank, all blocks together
/// have up to `end` bytes.
std::vector<std::size_t> sizes_of(Kind kind, int ranks, Grid steps, std::size_t end);

/// Divides the remaining time evenly among the remaining points.
class Budget {
 public:
  /// Counts every point of the plan twice, since it may be measured twice.
  Budget(const Plan& plan, int world, Grid steps);
  /// Seconds for the next point.
  double next();
  void more(std::size_t points) { points_ += static_cast<int>(points); }
  void less(std::size_t points) { points_ -= static_cast<int>(points); }

 private:
  Deadline until_;
  int points_;
};

/// Calls `play` for each number of ranks, on those ranks, with a Tuner for them. The other ranks wait. Collective.
void on_each_number_of_ranks(Communicator& world, const Plan& plan, const std::function<void(Tuner&)>& play);

}  // namespace tutti::tune
