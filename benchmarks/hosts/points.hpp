// Points: what the program hosts_points is asked to measure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// One collective at several sizes, by the algorithm that the rules choose and by others.
struct Points {
  std::string board;  ///< SharedMemory::path
  Kind kind = Kind::allreduce;
  std::vector<std::int64_t> sizes;  ///< bytes, ascending
  std::string others = "all";       ///< algorithms beside the chosen one: "all" that fit, "none", or names with commas
  double seconds = 0.5;             ///< for one algorithm at one size, about
  unsigned seed = 0;                ///< for the order
};

/// Parses "board=PATH", "kind=allreduce", "sizes=8,1024", "others=all", "seconds=0.5", "seed=3". Throws Error{invalid}.
Points parse_points(std::span<const std::string> words);

/// What an algorithm took at the size before.
struct Past {
  std::int64_t bytes = 0;
  double seconds = 0;  ///< 0: not measured
  double best = 0;     ///< of all algorithms
};

/// True if an algorithm is left out at a size: it was far behind at the one before, and a call is expected to take
/// longer than all the time for it.
bool hopeless(const Past& past, std::int64_t bytes, double seconds) noexcept;

}  // namespace tutti::bench
