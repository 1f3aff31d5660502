// Lines: a benchmark's rows as csv. The programs for peers print the same format.
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
  double min_us = 0, median_us = 0, p99_us = 0;  ///< times of the out-of-place calls
  std::vector<double> extras;                    ///< the values of extra_names()
  bool ok = false;                               ///< true: no element was wrong
};

void print_line_head(std::FILE* to, const Sweep& sweep);
void print_line(std::FILE* to, std::string_view implementation, const Row& row, bool checked);

/// Parses the rows of csv output and skips all other lines.
std::vector<Line> parse_csv(const std::string& text);

}  // namespace tutti::bench
