// Schedule: the learning rate of each step, as a function of the step's number; `auto` also depends on validation
// errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.hpp"

namespace tutti::engine {

/// The position of a step in the run.
struct Place {
  std::size_t step = 0;             ///< from 0, over all epochs
  std::size_t steps_per_epoch = 1;  ///< at least 1
  std::size_t total_steps = 1;

  std::size_t epoch() const noexcept { return step / steps_per_epoch; }  ///< from 0
  double epochs() const noexcept { return static_cast<double>(step) / static_cast<double>(steps_per_epoch); }
};

struct ScheduleSettings {
  std::string name = "constant";
  Options::Given options = {};
  double lr = 0.1;    ///< learning rate for one rank
  double scale = 1;   ///< factor of `lr` that is reached at the end of the warm-up, for example the number of ranks
  double warmup = 0;  ///< in epochs
  std::size_t warmup_steps = 0;  ///< length of the warm-up in steps; set at most one of the two
  /// How the rate rises in the warm-up. `linear`: in equal steps from near 0 to lr * scale. `power`: from lr, by a
  /// factor of scale^(1 / warmup) per epoch (Goyal et al. 2017, and Theano-MPI with k ranks over 5 epochs).
  std::string rise = "linear";
};

/// The state of `auto` and `plateau`; other schedules have none.
struct ScheduleState {
  std::vector<double> errors;  ///< auto: last errors since the last division; plateau: see observe_plateau()
  double factor = 1;
};

/// A learning rate schedule. Any thread may call rate(). One thread at a time may call observe() or load_state(), and
/// no thread may call rate() meanwhile.
class Schedule {
 public:
  /// Throws Error{invalid} for unknown names or options and for values out of range.
  explicit Schedule(const ScheduleSettings& settings);

  /// Returns the learning rate of the step at `place`. The result depends on `place` alone unless observes() is true.
  double rate(const Place& place) const;

  /// True if rate() depends on the values passed to observe().
  bool observes() const noexcept { return automatic_.records > 0 || plateau_.factor > 0; }

  /// Tells the schedule the validation error after epoch `epoch` (from 0). The scale of the errors is free; the option
  /// `threshold` of `auto` has the same scale. All ranks must pass the same values. Returns true if the rate was
  /// lowered. Does nothing unless observes() is true.
  bool observe(std::size_t epoch, double validation_error);

  ScheduleState state() const { return state_; }
  void load_state(ScheduleState state) { state_ = std::move(state); }

 private:
  /// Returns the factor of the rate at `place` after a warm-up of `warm` steps.
  using Curve = std::function<double(const Place& place, double warm)>;
  struct Automatic {
    std::size_t records = 0, first = 0;
    double threshold = 0, divide = 1;
  };
  struct Plateau {
    double factor = 0, patience = 0, threshold = 0, cooldown = 0, least = 0;
  };
  static Curve curve_of(const Options& options);
  bool observe_plateau(double value);

  double lr_, scale_, warmup_;
  std::size_t warmup_steps_;
  bool linear_;
  Curve curve_;
  Automatic automatic_;
  Plateau plateau_;
  ScheduleState state_;
};

/// Creates the learning rate schedule of a configuration.
Schedule make_schedule(const Config& config);

}  // namespace tutti::engine
