// Report: the rows of a benchmark, for people, for spreadsheets and for programs.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tools/bench/measure.hpp"

namespace tutti::bench {

/// Prints rows as they come, in one of the formats.
class Report {
 public:
  Report(std::string implementation, const Request& request, int ranks, std::FILE* to);
  void add(const Row& row);
  void finish();
  std::uint64_t wrong() const noexcept { return wrong_; }

 private:
  void head();
  std::string implementation_, format_;
  int ranks_;
  bool check_;
  std::FILE* to_;
  std::size_t rows_ = 0;
  std::uint64_t wrong_ = 0;
  double bus_total_ = 0;
  std::size_t bus_count_ = 0;
};

/// One line of the csv format.
struct Line {
  std::string implementation, collective, dtype;
  std::size_t bytes = 0;
  int ranks = 0;
  double min_us = 0, median_us = 0, p99_us = 0;
  bool ok = false;
};

/// The lines of csv output; anything else in it is skipped.
std::vector<Line> parse_csv(const std::string& text);

}  // namespace tutti::bench
