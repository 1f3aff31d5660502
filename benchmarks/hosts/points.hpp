// Points: the arguments of the program hosts_points, which say what it measures.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// One collective at several sizes, by the algorithm that the rules choose and by others.
struct Points {
  std::string board;  ///< SharedMemory::path of the memory for barriers and times
  Kind kind = Kind::allreduce;
  std::vector<std::int64_t> sizes;  ///< bytes, ascending
  std::string others = "all";       ///< algorithms besides the chosen one: "all", "none", or names separated by commas
  double seconds = 0.5;             ///< approximate time for one algorithm at one size
  unsigned seed = 0;                ///< of the random order of the algorithms
};

/// Parses "board=PATH", "kind=allreduce", "sizes=8,1024", "others=all", "seconds=0.5", "seed=3". Throws Error{invalid}.
Points parse_points(std::span<const std::string> words);

/// The time of an algorithm at the previous size.
struct Past {
  std::int64_t bytes = 0;
  double seconds = 0;  ///< 0: not measured
  double best = 0;     ///< the best time of all algorithms
};

/// True if an algorithm is left out at size `bytes`: at the previous size it took more than 4 times as long as the best
/// one, and now one call is expected to take longer than `seconds`, the time for all its calls.
bool hopeless(const Past& past, std::int64_t bytes, double seconds) noexcept;

}  // namespace tutti::bench
