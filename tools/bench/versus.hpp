// Versus: tutti beside other libraries, in interleaved rounds.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/request.hpp"

namespace tutti::bench {

/// Runs tutti and the peers that the request names, `request.rounds` times, each time all of them in shuffled order,
/// and shows for each size the ratio peer / tutti: its median over the rounds and its spread. A peer that cannot be
/// run, or whose results are wrong, is one line on stderr; the others go on, and the exit code, which is returned,
/// is 1.
int compare(const Request& request, const std::vector<std::string>& arguments);

/// Prints the peers that are here, and why others are not.
int list_peers(const Request& request);

}  // namespace tutti::bench
