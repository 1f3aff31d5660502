// The command line of `tutti train`.
#pragma once

#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/data/formats/source.hpp"

namespace tutti::tools {

/// The contents of the command line.
struct TrainRequest {
  engine::Config config;
  int ranks = 0;  ///< number of ranks to start; 0: this process is all, or a rank already
  bool dry_run = false;
  bool explain = false;  ///< print the strategy and start nothing
  std::string link, net;
  std::string judged;      ///< folder of a run whose network is only looked at, with the held-out samples; empty: none
  std::string predicted;   ///< where its outputs for them are written; empty: only loss and metrics are wanted
  bool names_run = false;  ///< config.run is a proposal: nothing was said of it
  std::string join;        ///< folder of a run that goes on, which this process joins; empty: none
  int ranks_before = 0;    ///< of the run that is resumed; 0: none is, or nothing is known of it
};

/// Prints `text` and throws Finished.
[[noreturn]] void show(const std::string& text);

/// Throws Error{invalid} for errors that can be found without looking at the data.
TrainRequest read_request(const std::vector<std::string>& arguments);

/// Opens the data that the configuration names, within its limits. Throws as engine::load() does.
engine::DataSplit data_of(const engine::Config& config);

}  // namespace tutti::tools
