// Request: the measurement and the output that the flags of `tutti bench` ask for.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/sweep.hpp"
#include "tutti/settings.hpp"

namespace tutti::bench {

struct Request : Sweep {
  int ranks = 0;  ///< -np; 0: not given
  std::string format = "human";
  std::string algorithm;
  std::string memory = "ordinary";  ///< memory of tutti's buffers; "allocated": from communicator.allocate()
  std::string device = "cpu";       ///< device of tutti's buffers; "cuda": the rank's GPU
  std::vector<std::string> versus;  ///< the libraries to compare with: NAME or NAME:VARIANT
  std::vector<std::string> peers;   ///< --peer: NAME=MPICXX,MPIEXEC[,VARIABLE=VALUE...]
  std::string variants;             ///< path of a file with further settings of peers
  std::string csv_file, json_file, svg_file;
  bool plot = false, verbose = false;
  bool list_peers = false;  ///< list the peers and measure nothing
  int rounds = 5;
  double flag_limit = 0;  ///< discard rounds in which a core sees another core's write after more ns; 0: none
  Settings settings;

  /// Returns true if this process is not a rank: it starts jobs that measure several libraries, and compares these.
  bool compares() const noexcept {
    return !versus.empty() || !peers.empty() || !variants.empty() || plot || !csv_file.empty() || !json_file.empty() ||
           !svg_file.empty();
  }
};

/// Parses and checks the flags. `program` is the name for --help. Throws Error{invalid}.
Request parse_request(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace tutti::bench
