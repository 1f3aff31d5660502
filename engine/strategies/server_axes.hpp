// ServerAxes: what belongs to how=server alone, beside the axes that all strategies have. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/options.hpp"

namespace tutti::engine {

struct Axes;

struct ServerAxes {
  std::int64_t masters = 0, processes = 1;  ///< ranks that keep parameters and do nothing else; ranks of each worker
  std::int64_t submasters = 0;              ///< each keeps the parameters of a group of workers; 0: no groups
  std::int64_t submaster_every = 1;         ///< updates of these from one exchange with the top to the next
  std::int64_t prefetch = 0;                ///< steps from fetching to using what was fetched
  double elastic_force = 0;                 ///< beta: elastic times the workers; 0: elastic is given
  double elastic_here = -1;                 ///< elastic of the worker's side; negative: the same
  double kappa = 2;                         ///< of outer=gem
  std::string stale = "take";               ///< what is older than most_stale updates: take, reject or damp
  std::int64_t most_stale = 0;
  std::int64_t joins = 0;  ///< workers that may join while training runs
  double grace = 0;        ///< seconds that a round waits beyond its quorum
  double silence = 60;     ///< seconds after which a worker that says nothing is given up; 0: never
};

/// As axis_options().
std::vector<OptionInfo> server_axis_options();
ServerAxes read_server_axes(const Options& options);

/// Throws Error{invalid}, in one line, for axes that do not go together with how=server.
void check_server_axes(const Axes& axes);

}  // namespace tutti::engine
