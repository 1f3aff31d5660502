// SampleLog: which samples a process had in which step, so that others can check that each was seen once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>

#include "engine/data/sample.hpp"

namespace tutti::engine {

/// Writes FOLDER/HOST-PID.csv, with a line for each step that this process begins: "commit,epoch,step,SAMPLE SAMPLE
/// ...". `commit` grows whenever the ranks of an elastic run go on from an earlier step. If a step is in the files with
/// several commits, the highest one is the one that was done. Each line is in the file before its step begins. One
/// thread.
class SampleLog {
 public:
  /// Creates the folder. Goes on in the file if this process has written it before. Throws Error{resource}.
  explicit SampleLog(const std::filesystem::path& folder);
  void step(std::int64_t commit, std::size_t epoch, std::size_t step, std::span<const SampleId> samples);

 private:
  const std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace tutti::engine
