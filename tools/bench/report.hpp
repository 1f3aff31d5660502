// Report: the rows of a benchmark as a table, csv or json.
#pragma once

#include <cstdio>
#include <string>

#include "tools/bench/measure.hpp"
#include "tools/bench/request.hpp"

namespace tutti::bench {

/// Prints each row when it is added, in one of the formats.
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
  std::vector<std::string> extras_;
  std::FILE* to_;
  std::size_t rows_ = 0;
  std::uint64_t wrong_ = 0;
  double bus_total_ = 0;
  std::size_t bus_count_ = 0;
};

/// Runs measure(). Rank 0 prints the rows in the requested format. Returns the exit code: 1 if an element was wrong.
int measure_and_print(Implementation& implementation, Board& board, const Request& request);

}  // namespace tutti::bench
