// Versus: tutti compared with other libraries, in interleaved rounds.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/request.hpp"

namespace tutti::bench {

/// Runs tutti and the requested peers in `request.rounds` rounds, each in shuffled order, and shows for each size the
/// ratio peer / tutti: its median over the rounds and its spread. A peer that cannot be run, or whose results are
/// wrong, is reported on stderr and left out. Returns the exit code: 1 if something failed.
int compare(const Request& request, const std::vector<std::string>& arguments);

/// Prints the available peers, and why others are not available.
int list_peers(const Request& request);

}  // namespace tutti::bench
