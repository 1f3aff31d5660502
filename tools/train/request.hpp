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
  int ranks = 0;  ///< number of ranks to start; 0: none, this process is the only rank, or one of a job
  bool dry_run = false;
  bool explain = false;  ///< print the strategy and start nothing
  std::string link, net;
  std::string judged;      ///< folder of a run whose network is only evaluated on the held-out samples; empty: none
  std::string predicted;   ///< file for the network's outputs on them; empty: only print loss and metrics
  bool names_run = false;  ///< true: config.run is a proposal, because the user has not named a folder
  std::string join;        ///< folder of a run in progress that this process joins; empty: none
  int ranks_before = 0;    ///< ranks of the run that is resumed; 0: none is resumed, or unknown
};

/// Prints `text` and throws Finished.
[[noreturn]] void show(const std::string& text);

/// Parses the command line. Throws Error{invalid} for errors that can be found without reading the data.
TrainRequest read_request(const std::vector<std::string>& arguments);

/// Opens the data that the configuration names, within its limits. Throws as engine::load() does.
engine::DataSplit data_of(const engine::Config& config);

}  // namespace tutti::tools
