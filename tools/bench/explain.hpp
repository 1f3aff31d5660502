// Explain: the backend and algorithm that tutti chooses for each measured size, and why.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/request.hpp"
#include "tutti.hpp"

namespace tutti::bench {

/// Returns Communicator::explain() for a case. `memory` must have room for the case's buffers, but is not accessed.
std::string explain(const Communicator& world, const Case& what, std::byte* memory);

/// Returns one line for each run of sizes with the same explanation: "8 to 65536 bytes: planned/ring: rule ...". Local.
std::vector<std::string> explain_sizes(const Communicator& world, const Request& request);

}  // namespace tutti::bench
