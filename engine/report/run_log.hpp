// LossFile and RunLog: files for other programs, which a run writes while it trains.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "engine/report/report.hpp"

namespace tutti::engine {

/// A file with the header "step,loss" and a line for each step. For one thread.
class LossFile {
 public:
  /// Replaces the file by one with the losses of the steps that are done. Throws Error{resource} with the file's name,
  /// as add() does.
  LossFile(std::filesystem::path file, std::span<const double> done);

  void add(std::span<const double> losses);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
  std::size_t next_ = 0;
};

/// A file of JSON lines, one object for each event: {"step", "loss"}, {"validation", "step", "epoch", "loss" and the
/// metrics}, {"epoch", ...}, and {"begin": step} where the run begins or is resumed. "time" is in seconds since 1970. A
/// resumed run appends lines: if two lines have the same step, the last one is valid. A number that is not finite is
/// written as null. For one thread. Throws Error{resource} with the file's name.
class RunLog {
 public:
  RunLog(std::filesystem::path file, std::size_t step);

  /// Adds the losses of the steps from number `first` on, counted from 0.
  void losses(std::size_t first, std::span<const double> losses);
  void validation(const Validation& found);
  void epoch(const EpochResult& result);

 private:
  void write(const std::string& lines);

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace tutti::engine
