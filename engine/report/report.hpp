// Report: prints the progress of a training run.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/report/step_times.hpp"

namespace tutti::engine {

using Metrics = std::vector<std::pair<std::string, double>>;  ///< names and values; accuracies are between 0 and 1

/// Returns true if a metric of this name is a fraction, which is printed in percent.
bool is_share(std::string_view name) noexcept;

/// The result of a validation on the held-out samples; the same on all ranks.
struct Validation {
  std::size_t step = 0;  ///< steps done before the validation, over all epochs
  double epoch = 0;      ///< epochs done before the validation; 1.5 is in the middle of the second epoch
  double loss = 0;
  Metrics metrics = {};
};

/// The result of an epoch; the same on all ranks.
struct EpochResult {
  std::size_t epoch = 0, epochs = 0;  ///< from 1
  std::size_t step = 0;               ///< steps done at the end of the epoch, over all epochs
  double learning_rate = 0;           ///< rate of the epoch's last step
  double train_loss = 0;              ///< mean over the epoch's samples; each loss was computed in the sample's step
  /// True if a validation belongs to this epoch. If false, test_loss and the values of `metrics` are NaN.
  bool validated = true;
  double test_loss = 0;  ///< of the epoch's last validation; the same holds for `metrics`
  Metrics metrics = {};
  double samples_per_second = 0;  ///< sum of all ranks, during training only
  PhaseTimes phases = {};         ///< time of the epoch's training, mean over the ranks
  std::size_t ranks = 1;          ///< number of ranks that trained together in the epoch
  /// The most_named ranks that the others waited for most, in the order of ranks. If the run has at most most_named
  /// ranks, the list has all ranks, and the sum of its seconds is phases.waiting.
  std::vector<WaitedFor> waited_for = {};

  /// Returns the metric with this name; NaN if there is none.
  double metric(std::string_view name) const noexcept;
  /// Returns the rank that the others waited for most; rank 0 if `waited_for` is empty.
  WaitedFor latest() const noexcept;
};

/// Returns the shares of an epoch's phases: "compute 80 %, communication 12 %, waiting 5 % (most for rank 2), load 1 %,
/// other 2 %". Omits communication and waiting if there is one rank, and the latest rank if waiting is at most 0.5 %.
std::string shares(const EpochResult& result);

/// Progress after a step.
struct Standing {
  std::size_t epoch = 0, epochs = 0, step = 0, steps = 0;  ///< from 1; `steps` is the number of steps of the epoch
  double loss = 0;                                         ///< of this step on this rank
  double samples_per_second = 0;
  double seconds_left = 0;  ///< estimated time until the last step
};

/// Returns the text "epoch 3/40  step 12/23  loss 0.1234  5321 samples/s  2:31 left".
std::string shown(const Standing& place);

/// Prints lines to stdout. Prints a live line, which it overwrites, to stderr. A silent report (on ranks other than 0)
/// prints nothing.
class Report {
 public:
  /// Values of `progress`: on; off (no live line, and no progress lines in a log either); auto (live line if stderr is
  /// a terminal); none (prints nothing at all).
  Report(std::string_view progress, bool silent);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(const std::string& text);
  /// Shows progress within an epoch, at most ten times per second and cut to the terminal's width. If `progress` is
  /// auto and stderr is no terminal, prints a plain line every 30 seconds instead.
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
