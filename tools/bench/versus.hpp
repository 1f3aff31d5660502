// Versus: tutti beside other libraries, in interleaved rounds.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/request.hpp"

namespace tutti::bench {

/// Runs tutti and the peers that the request names, `request.rounds` times, each time all of them in shuffled order,
/// and prints for each size the ratio peer / tutti: its median over the rounds and its spread. The peers are programs
/// beside `tutti`, in bench-peers/, or installed in libexec/tutti/bench-peers/. Returns the exit code.
int compare(const Request& request, const std::vector<std::string>& arguments);

}  // namespace tutti::bench
