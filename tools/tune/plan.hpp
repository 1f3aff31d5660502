// Plan: what `tutti tune` measures and checks, on how many ranks, at which sizes, and how its time is shared out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "collectives/tutti.hpp"
#include "tools/tune/tuner.hpp"
#include "transports/core/clock.hpp"

namespace tutti::tune {

struct Plan {
  std::vector<Kind> kinds;
  std::size_t end = 0;                ///< bytes, the last size
  double seconds = 0;                 ///< for all of it, about
  std::vector<std::string> backends;  ///< that are to be tried; the same on all ranks
};

/// How near one size is to the next.
struct Grid {
  std::size_t factor;
  std::size_t doubled_from;  ///< bytes; from there on sizes double
};

/// 2, 4, 8, ... and all of them.
std::vector<int> numbers_of_ranks(int all);

/// Bytes of one block, up to `end`; but where `in` or `out` has a block for every rank, up to `end` bytes of all.
std::vector<std::size_t> sizes_of(Kind kind, int ranks, Grid steps, std::size_t end);

/// What stands for the time until the end: seconds that are left are shared among the points that are left.
class Budget {
 public:
  /// Every point of the plan may be measured twice.
  Budget(const Plan& plan, int world, Grid steps);
  double next();
  void more(std::size_t points) { points_ += static_cast<int>(points); }
  void less(std::size_t points) { points_ -= static_cast<int>(points); }

 private:
  Deadline until_;
  int points_;
};

/// Calls `play` for each number of ranks on those ranks, with a tuner of theirs; the others wait. Collective.
void on_each_number_of_ranks(Communicator& world, const Plan& plan, const std::function<void(Tuner&)>& play);

}  // namespace tutti::tune
