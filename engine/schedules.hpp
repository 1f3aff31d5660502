// Schedule: the learning rate of each step, from its number alone; `auto` also looks at validation errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options.hpp"

namespace tutti::engine {

/// Where training is.
struct Place {
  std::size_t step = 0;             ///< from 0, over all epochs
  std::size_t steps_per_epoch = 1;  ///< from 1 up
  std::size_t total_steps = 1;

  std::size_t epoch() const noexcept { return step / steps_per_epoch; }  ///< from 0
  double epochs() const noexcept { return static_cast<double>(step) / static_cast<double>(steps_per_epoch); }
};

/// The schedules by name, with their options:
///   constant      1
///   step          gamma^(number of `milestones` reached); with every=n: gamma^floor(epoch / n)
///   poly          (1 - t)^power, t from 0 after the warm-up to 1 at the end, step by step
///   cosine        (1 + cos(pi t)) / 2, with the same t (Loshchilov and Hutter 2017, without restarts); both go down to
///                 `end` in place of 0
///   exponential   gamma^(epochs / every)
///   inverse_time  1 / (1 + decay epochs / every)
///   root_product  the product of sqrt(1 - i / span) for i from `first` to the epoch (GoogLeNet in Theano-MPI)
///   auto          1 / `divide` for each time that the validation error improved too little
std::span<const ChoiceInfo> schedule_table() noexcept;

struct ScheduleSettings {
  std::string name = "constant";
  Options::Given options = {};
  double lr = 0.1;    ///< of one rank alone
  double scale = 1;   ///< what `lr` is multiplied by, reached at the warm-up's end: the number of ranks, say
  double warmup = 0;  ///< epochs
  /// How the warm-up rises: `linear` from 0 to lr * scale, step by step; `power` from lr, by scale^(1 / warmup) at each
  /// epoch (Goyal et al. 2017 and Theano-MPI scale so by k over 5 epochs).
  std::string rise = "linear";
};

/// What `auto` remembers. Others have nothing to keep.
struct ScheduleState {
  std::vector<double> errors;  ///< the records since the last division
  double factor = 1;
};

/// Any thread may call rate(); observe() and load_state() one at a time, with no rate() meanwhile.
class Schedule {
 public:
  /// Throws Error{invalid}: unknown names and options, values out of range.
  explicit Schedule(const ScheduleSettings& settings);

  /// The learning rate of the step at `place`. A function of `place` alone, except that of `auto`.
  double rate(const Place& place) const;

  /// Whether rate() depends on what observe() was told.
  bool observes() const noexcept { return automatic_.records > 0; }

  /// A validation error, between 0 and 1 or of any other scale, after the epoch with this number, from 0. All ranks
  /// must tell the same. True if the rate was divided. Schedules other than `auto` take no notice.
  bool observe(std::size_t epoch, double validation_error);

  ScheduleState state() const { return state_; }
  void load_state(ScheduleState state) { state_ = std::move(state); }

 private:
  /// The factor at `place` after a warm-up of so many steps.
  using Curve = std::function<double(const Place& place, double warm)>;
  struct Automatic {
    std::size_t records = 0, first = 0;
    double threshold = 0, divide = 1;
  };
  static Curve curve_of(const Options& options);

  double lr_, scale_, warmup_;
  bool linear_;
  Curve curve_;
  Automatic automatic_;
  ScheduleState state_;
};

}  // namespace tutti::engine
