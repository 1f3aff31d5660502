// Report: what a training run tells its user while it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::engine {

/// The same on all ranks.
struct EpochResult {
  std::size_t epoch = 0, epochs = 0;                         ///< counted from 1
  double learning_rate = 0;                                  ///< of the epoch's last step
  double train_loss = 0;                                     ///< mean over the epoch's samples, as they were seen
  double test_loss = 0;                                      ///< on the held-out samples, as are the metrics
  std::vector<std::pair<std::string, double>> metrics = {};  ///< by name; accuracies are 0 .. 1
  double samples_per_second = 0;                             ///< of all ranks together, training only
  double communication = 0;  ///< share of the step that ranks spent waiting for gradients, 0 .. 1

  /// The metric of this name; NaN: there is none.
  double metric(std::string_view name) const noexcept;
};

/// Lines go to stdout; the live line, which is written over, to stderr. A silent report (any rank but 0) says nothing.
class Report {
 public:
  /// `progress`: on, off, or auto, which is on when stderr is a terminal.
  Report(std::string_view progress, bool silent);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(const std::string& text);
  void step(std::size_t epoch, std::size_t step, std::size_t steps, double loss, double samples_per_second);
  void epoch(const EpochResult& result);

 private:
  void erase();

  bool silent_, live_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tutti::engine
