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
    std::optional<double> seconds = {};  ///< nullopt: it does not fit, or there is neither formula nor replay
    bool replayed = false;               ///< else estimated
  };
  struct Line {
    std::string_view algorithm;
    std::vector<Cell> cells;  ///< one for each value
  };
  std::string axis;                 ///< "bytes", "ranks", "hosts"
  std::vector<std::size_t> values;  ///< along it
  std::vector<Line> lines;          ///< by name
  std::vector<std::size_t> chosen;  ///< for each value, which line
  bool by_replay = false;
  std::vector<double> bounds;  ///< for each value, in seconds
};

/// Bytes from 8 B to 256 MiB, or powers of 2 up to the ranks or hosts of the request; a root beyond them is their last
/// rank. Costs are estimates, and replays where there is no formula; with --replay the other way round: replays, and
/// estimates where there are too many messages. The chosen one is that of the least estimate in both.
Sweep sweep(const Request& request);

void print_sweep(const Request& request, const Sweep& sweep);

/// "64 KiB" for bytes, else "65,536".
std::string value_text(const Sweep& sweep, std::size_t value);

}  // namespace tutti::planning
