// Sweep: the cost of every algorithm over bytes, ranks or hosts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plan/row.hpp"

namespace tutti::planning {

struct Sweep {
  struct Cell {
    std::optional<double> seconds = {};  ///< nullopt: the algorithm does not fit, or has neither formula nor replay
    bool replayed = false;               ///< true: by replay; false: an estimate
  };
  struct Line {
    std::string_view algorithm;
    std::vector<Cell> cells;  ///< one for each value
  };
  std::string axis;                 ///< "bytes", "ranks", "hosts"
  std::vector<std::size_t> values;  ///< values of the axis
  std::vector<Line> lines;          ///< sorted by name
  std::vector<std::size_t> chosen;  ///< for each value, the index of the chosen line
  bool by_replay = false;
  std::vector<double> bounds;  ///< for each value, the lower bound in seconds
};

/// Computes the sweep: bytes from 8 B to 256 MiB, or powers of 2 up to the request's ranks or hosts. If a root is
/// larger than all ranks, the last rank is the root. Costs are estimates, or replays for algorithms without a formula.
/// With --replay, costs are replays, or estimates if there are too many messages. The least estimate is always chosen.
Sweep sweep(const Request& request);

void print_sweep(const Request& request, const Sweep& sweep);

/// Returns "64 KiB" for bytes, otherwise "65,536".
std::string value_text(const Sweep& sweep, std::size_t value);

}  // namespace tutti::planning
