// Axes: the independent choices of which a training strategy is made, one option each. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/options.hpp"
#include "engine/strategies/codec_choice.hpp"
#include "engine/strategies/server_axes.hpp"

namespace tutti::engine {

struct Config;

/// The axes of one run. Intervals are counted in steps of a rank. A sync is an exchange of parameters or deltas.
struct Axes {
  std::string preset;

  enum class Inner : std::uint8_t { keep, average, reset };
  Inner inner = Inner::keep;     ///< what a sync does with the optimizer's state
  std::int64_t inner_every = 1;  ///< number of syncs from one average or reset to the next

  enum class When : std::uint8_t { every, probability };
  When when = When::every;
  std::int64_t every = 1;        ///< H: steps between two syncs
  double probability = 0;        ///< p: the probability of a sync in a step
  std::int64_t fragments = 1;    ///< F: fragment f is synced every H steps, first after (f + 1) H / F
  std::int64_t dense_steps = 0;  ///< number of initial steps that average gradients instead

  enum class What : std::uint8_t { gradients, parameters, deltas };
  What what = What::gradients;
  CodecChoice codec;
  double sparta = 0;  ///< fraction of the parameters that each step averages additionally
  enum class How : std::uint8_t { allreduce, pairs, server };
  How how = How::allreduce;
  std::int64_t group = 2;  ///< pairs: ranks of each group
  enum class Merge : std::uint8_t { mean, sum, tokens, radial, elastic, vote, gossip };
  Merge merge = Merge::mean;
  double elastic = 0.5;  ///< a of merge=elastic
  enum class Outer : std::uint8_t { none, sgd, heavyball, nesterov, delayed_nesterov, adam, gem };
  Outer outer = Outer::none;
  double outer_lr = 1, outer_momentum = 0, consensus = 0;
  std::int64_t outer_every = 1;  ///< N of outer=delayed-nesterov
  enum class Apply : std::uint8_t { blocking, next, late, eager };
  Apply apply = Apply::blocking;
  std::int64_t delay = 0;  ///< tau: steps between sending a delta and applying the result
  double alpha = 0;        ///< a sync sets x to alpha x + (1 - alpha) theta; x: parameters, theta: result
  enum class Members : std::uint8_t { all, quorum, any };
  Members members = Members::all;
  std::int64_t quorum = 0;
  enum class Judged : std::uint8_t { exchange, outer, mean };
  Judged judged = Judged::exchange;  ///< which parameters are validated and saved; see axis_options()
  ServerAxes server;
  bool overlap = true, reorder = true, scale_lr = false;

  /// Returns a text with everything that the strategy's state depends on, such as "diloco every 32 by int8". A run can
  /// be resumed only with the same name.
  std::string name() const;

  /// Sets one of the numbers that may change during a run; see Strategy::set(). Throws Error{invalid}.
  void set(std::string_view key, double value);

  /// Returns all axes, each with its value and numbers, such as {"when", "every 64"}.
  std::vector<std::pair<std::string, std::string>> table() const;
};

/// Returns every axis and number as an option, with its default. Presets may change the defaults.
std::vector<OptionInfo> axis_options();

/// Returns the preset of config.strategy, changed by the axes that are set. Throws Error{invalid}, with one line of
/// text, if an axis does not have the given value or if axes cannot be combined.
Axes axes_of(const Config& config);

}  // namespace tutti::engine
