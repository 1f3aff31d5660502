// Lines: a benchmark's rows as csv, which is also the output of a peer's program.
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
  double min_us = 0, median_us = 0, p99_us = 0;  ///< of the out-of-place calls
  std::vector<double> extras;                    ///< the values of extra_names()
  bool ok = false;                               ///< no element was found wrong
};

void print_line_head(std::FILE* to, const Sweep& sweep);
void print_line(std::FILE* to, std::string_view implementation, const Row& row, bool checked);

/// Parses the lines of csv output and skips anything else.
std::vector<Line> parse_csv(const std::string& text);

}  // namespace tutti::bench
