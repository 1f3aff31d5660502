// Request: what `tutti bench` was asked to measure, and how to show it.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/sweep.hpp"
#include "transports/core/settings.hpp"

namespace tutti::bench {

struct Request : Sweep {
  int ranks = 0;  ///< -np; 0: not said
  std::string format = "human";
  std::string algorithm;
  std::string memory = "ordinary";  ///< tutti's buffers; "allocated": by communicator.allocate
  std::string device = "cpu";       ///< where tutti's buffers are; "cuda": on the rank's GPU
  std::vector<std::string> versus;  ///< NAME or NAME:VARIANT
  std::vector<std::string> peers;   ///< --peer: NAME=MPICXX,MPIEXEC[,VARIABLE=VALUE...]
  std::string variants;             ///< a file
  std::string csv_file, json_file, svg_file;
  bool plot = false, verbose = false;
  bool list_peers = false;  ///< nothing is measured
  int rounds = 5;
  double flag_limit = 0;  ///< nanoseconds; 0: rounds count in whatever state the machine is
  Settings settings;

  /// Whether several rounds are run and summed up, by a process that is not a rank itself.
  bool compares() const noexcept {
    return !versus.empty() || !peers.empty() || !variants.empty() || plot || !csv_file.empty() || !json_file.empty() ||
           !svg_file.empty();
  }
};

/// Parses and checks; `program` is for --help. Throws Error{invalid}.
Request parse_request(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace tutti::bench
