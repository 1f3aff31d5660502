// RunFolder: the files that a training run writes, except its checkpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "engine/checkpoint/state.hpp"
#include "engine/config.hpp"
#include "engine/report/event_file.hpp"
#include "engine/report/run_log.hpp"
#include "engine/strategies/stats.hpp"

namespace tutti {
class Descriptor;
}

namespace tutti::engine {

/// Writes DIR/config.yaml (the whole configuration, and where each value came from), DIR/environment.txt (host and
/// versions), DIR/metrics.csv (one line per epoch), DIR/ranks.csv (elastic runs: how many ranks trained from when on),
/// DIR/waiting.csv (for each epoch the ten pairs of ranks with the longest wait of one for the other),
/// DIR/events.out.tfevents.* (for TensorBoard: epochs, validations, and the loss of each step) and DIR/log.jsonl (see
/// RunLog). Losses, validations and epochs are written as they become known. One process writes, on one thread.
class RunFolder {
 public:
  /// Creates the folder, or goes on in that of a run whose state is `done`. Throws Error{resource} with the file that
  /// cannot be written. Throws Error{invalid} if the folder contains a run and `goes_on` is false, or one that is
  /// running in another process. Holds DIR/lock while this object lives.
  RunFolder(const Config& config, int ranks, const RunState& done, bool goes_on);
  ~RunFolder();

  /// Adds `found` to the event file and, if `listed`, DIR/validations.csv.
  void validation(const Validation& found, bool listed);
  /// Writes the losses of the next steps.
  void losses(std::span<const double> fresh);
  /// Writes the result of an epoch, and the pairs of ranks with the longest wait of one for the other.
  void epoch(const EpochResult& result, std::span<const PairWait> waits);
  /// Adds a line to DIR/ranks.csv: from `epochs` epochs (a step within one is a fraction) and `step` steps on, `ranks`
  /// ranks train.
  void ranks(double epochs, std::size_t step, int ranks) const;
  /// Writes DIR/history.json at the end of the run.
  void history(const RunState& done, const ExchangeStats& exchanged) const;
  /// Writes DIR/trace.json.
  void trace(const std::string& json) const;

 private:
  void lock();
  void write_metrics(const EpochResult& result) const;

  const Config config_;
  const Nanoseconds began_ = steady_now();
  std::filesystem::path folder_, metrics_, waiting_, validations_;
  std::unique_ptr<Descriptor> lock_;
  std::size_t steps_;  ///< number of steps whose losses have been written
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<RunLog> log_;
};

/// The folder of a run's checkpoints.
std::filesystem::path checkpoint_folder(const Config& config);

}  // namespace tutti::engine
