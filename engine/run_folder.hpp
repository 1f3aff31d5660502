// RunFolder: what a training run writes beside its checkpoints.
#pragma once

#include <filesystem>
#include <span>

#include "engine/config.hpp"
#include "engine/report.hpp"

namespace tutti::engine {

/// DIR/config.yaml has the whole configuration and where each value came from, DIR/environment.txt the machine and
/// versions, DIR/metrics.csv a line for each epoch. One process writes, on one thread.
class RunFolder {
 public:
  /// Makes the folder. `done`: the epochs of a run that is resumed. Throws Error{resource} naming what cannot be
  /// written, Error{invalid} where the folder has a run in it that is not resumed.
  RunFolder(const Config& config, int ranks, std::span<const EpochResult> done);

  void epoch(const EpochResult& result);

 private:
  std::filesystem::path folder_, metrics_;
};

/// Where a run's checkpoints are.
std::filesystem::path checkpoint_folder(const Config& config);

}  // namespace tutti::engine
