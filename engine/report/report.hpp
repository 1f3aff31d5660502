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

using Metrics = std::vector<std::pair<std::string, double>>;  ///< by name; accuracies are between 0 and 1

/// True if a metric of this name is a fraction, which is printed in percent.
bool is_share(std::string_view name) noexcept;

/// The result of a validation on the held-out samples; the same on all ranks.
struct Validation {
  std::size_t step = 0;  ///< steps done before it, over all epochs
  double epoch = 0;      ///< epochs done before it; 1.5 is in the middle of the second epoch
  double loss = 0;
  Metrics metrics = {};
};

/// The result of an epoch; the same on all ranks.
struct EpochResult {
  std::size_t epoch = 0, epochs = 0;  ///< from 1
  std::size_t step = 0;               ///< steps done at its end, over all epochs
  double learning_rate = 0;           ///< of the epoch's last step
  double train_loss = 0;              ///< mean over the epoch's samples, each at the time of its step
  /// Whether a validation belongs to this epoch; without one, test_loss and the values of `metrics` are NaN.
  bool validated = true;
  double test_loss = 0;  ///< of the epoch's last validation, as are `metrics`
  Metrics metrics = {};
  double samples_per_second = 0;  ///< of all ranks together, during training only
  PhaseTimes phases = {};         ///< time of the epoch's training, mean over the ranks
  std::size_t ranks = 1;          ///< that trained together in it
  /// The ranks that the others waited for most, in the order of the ranks: most_named of them, or in a run of no more
  /// ranks all, whose sum is phases.waiting.
  std::vector<WaitedFor> waited_for = {};

  /// The metric with this name; NaN if there is none.
  double metric(std::string_view name) const noexcept;
  /// The rank that the others waited for most; rank 0 if there is none.
  WaitedFor latest() const noexcept;
};

/// "compute 80 %, communication 12 %, waiting 5 % (most for rank 2), load 1 %, other 2 %": the shares of an epoch's
/// phases. With a single rank, communication and waiting are left out; the latest rank, where nobody was late.
std::string shares(const EpochResult& result);

/// Progress after a step.
struct Standing {
  std::size_t epoch = 0, epochs = 0, step = 0, steps = 0;  ///< from 1; steps are those of the epoch
  double loss = 0;                                         ///< of the step, on this rank
  double samples_per_second = 0;
  double seconds_left = 0;  ///< estimated time until the last step
};

/// "epoch 3/40  step 12/23  loss 0.1234  5321 samples/s  2:31 left".
std::string shown(const Standing& place);

/// Prints lines to stdout, and a live line that is overwritten to stderr. A silent report (on ranks other than 0)
/// prints nothing.
class Report {
 public:
  /// `progress`: on; off (no live line, and no progress lines in a log either); auto (live line if stderr is a
  /// terminal); none (prints nothing at all).
  Report(std::string_view progress, bool silent);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(const std::string& text);
  /// Shows progress within an epoch, at most ten times per second and cut to the terminal's width. With auto and no
  /// terminal, prints a plain line every 30 seconds instead.
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
