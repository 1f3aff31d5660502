// RunFolder: what a training run writes beside its checkpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "engine/checkpoint/state.hpp"
#include "engine/config.hpp"
#include "engine/report/event_file.hpp"
#include "engine/strategies/stats.hpp"

namespace tutti::engine {

/// DIR/config.yaml has the whole configuration and where each value came from, DIR/environment.txt the machine and
/// versions, DIR/metrics.csv a line for each epoch, DIR/waiting.csv one for each two ranks of which one waited for the
/// other, DIR/events.out.tfevents.* the same for TensorBoard, with the loss of every step. One process writes, on one
/// thread.
class RunFolder {
 public:
  /// Makes the folder. `done`: where a run is that is resumed. Throws Error{resource} naming what cannot be
  /// written, Error{invalid} where the folder has a run in it that is not resumed.
  RunFolder(const Config& config, int ranks, const RunState& done);

  /// Held-out samples have been looked at. DIR/validations.csv has a line for each where `listed`.
  void validation(const Validation& found, bool listed);
  /// An epoch has ended, and `losses` are those of all steps so far.
  void epoch(const EpochResult& result, const Waits& waits, std::span<const double> losses);
  /// DIR/history.json, when the run has ended.
  void history(const RunState& done, const ExchangeStats& exchanged) const;
  /// DIR/trace.json.
  void trace(const std::string& json) const;

 private:
  void write_metrics(const EpochResult& result) const;

  const Config config_;
  const Nanoseconds began_ = steady_now();
  std::filesystem::path folder_, metrics_, waiting_, validations_;
  std::size_t steps_;  ///< whose losses are written
  std::unique_ptr<EventFile> events_;
};

/// Where a run's checkpoints are.
std::filesystem::path checkpoint_folder(const Config& config);

}  // namespace tutti::engine
