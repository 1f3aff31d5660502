// ServerAxes: the options that only strategy.how=server has. Does not use LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/options.hpp"

namespace tutti::engine {

struct Axes;

/// See server_axis_options() for what each option means.
struct ServerAxes {
  std::int64_t masters = 0, processes = 1;  ///< ranks that only keep parameters; ranks of each worker
  std::int64_t submasters = 0;              ///< ranks that each keep the parameters of a group; 0: no groups
  std::int64_t submaster_every = 1;         ///< updates of a group between two exchanges with the top master
  std::int64_t prefetch = 0;                ///< steps between fetching the masters' parameters and using them
  double elastic_force = 0;                 ///< beta: elastic times the number of workers; 0: use `elastic`
  double elastic_here = -1;                 ///< elastic on the worker's side; negative: the same as `elastic`
  double kappa = 2;                         ///< kappa of outer=gem
  std::string stale = "take";               ///< policy for stale pushes: take, reject (above most_stale) or damp
  std::int64_t most_stale = 0;
  std::int64_t joins = 0;  ///< workers that may join while training runs
  double grace = 0;        ///< seconds that a round stays open after it has its quorum
  double silence = 60;     ///< seconds without a message after which a worker counts as dead; 0: never
};

/// Returns the part of axis_options() for masters.
std::vector<OptionInfo> server_axis_options();
ServerAxes read_server_axes(const Options& options);

/// Throws Error{invalid}, in one line, for axes that cannot be combined with how=server.
void check_server_axes(const Axes& axes);

}  // namespace tutti::engine
