// Report: what a training run tells its user while it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/report/step_times.hpp"

namespace tutti::engine {

using Metrics = std::vector<std::pair<std::string, double>>;  ///< by name; accuracies are 0 .. 1

/// Whether a metric of this name is a share, which is shown in percent.
bool is_share(std::string_view name) noexcept;

/// A look at the held-out samples. The same on all ranks.
struct Validation {
  std::size_t step = 0;  ///< steps done before it, over all epochs
  double epoch = 0;      ///< epochs done before it: 1.5 is in the midst of the second
  double loss = 0;
  Metrics metrics = {};
};

/// The same on all ranks.
struct EpochResult {
  std::size_t epoch = 0, epochs = 0;  ///< counted from 1
  std::size_t step = 0;               ///< steps done by its end, over all epochs
  double learning_rate = 0;           ///< of the epoch's last step
  double train_loss = 0;              ///< mean over the epoch's samples, as they were seen
  double test_loss = 0;               ///< of the last validation, as are the metrics
  Metrics metrics = {};
  double samples_per_second = 0;  ///< of all ranks together, training only
  PhaseTimes phases = {};         ///< of the epoch's training, means over the ranks
  /// By rank: how long the others waited for it, together, divided by the ranks. Adds up to phases.waiting.
  std::vector<double> waited_for = {};

  /// The metric of this name; NaN: there is none.
  double metric(std::string_view name) const noexcept;
  /// The rank that the others waited for most.
  std::size_t latest() const noexcept;
};

/// "compute 80 %, communication 12 %, waiting 5 % (most for rank 2), load 1 %, other 2 %": the phases of an epoch. A
/// rank by itself neither communicates nor waits.
std::string shares(const EpochResult& result);

/// After a step.
struct Standing {
  std::size_t epoch = 0, epochs = 0, step = 0, steps = 0;  ///< from 1; the steps are of the epoch
  double loss = 0;                                         ///< of the step, on this rank
  double samples_per_second = 0;
  double seconds_left = 0;  ///< until the last step, at this pace
};

/// "epoch 3/40  step 12/23  loss 0.1234  5321 samples/s  2:31 left".
std::string shown(const Standing& place);

/// Lines go to stdout; the live line, which is written over, to stderr. A silent report (any rank but 0) says nothing.
class Report {
 public:
  /// `progress`: on, off (not even in a log), auto, which is on when stderr is a terminal, or none, which says nothing
  /// at all.
  Report(std::string_view progress, bool silent);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(const std::string& text);
  /// Where a run is within an epoch; shown ten times a second at most. Not wider than the terminal. Where there is no
  /// live line, as in a log file, a plain line is written every half a minute.
  void step(const Standing& place);
  void epoch(const EpochResult& result);
  void validation(const Validation& found);

 private:
  void erase();

  bool silent_, live_, plain_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tutti::engine
