// Lines: a benchmark's rows as csv, which is also how a peer's program tells what it measured.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/measure.hpp"

namespace tutti::bench {

struct Line {
  std::string implementation, collective, dtype;
  std::size_t bytes = 0;
  int ranks = 0;
  double min_us = 0, median_us = 0, p99_us = 0;  ///< out of place
  std::vector<double> extras;                    ///< what else the sweep measured
  bool ok = false;                               ///< nothing was found wrong
};

void print_line_head(std::FILE* to, const Sweep& sweep);
void print_line(std::FILE* to, std::string_view implementation, const Row& row, bool checked);

/// The lines of csv output; anything else in it is skipped.
std::vector<Line> parse_csv(const std::string& text);

}  // namespace tutti::bench
