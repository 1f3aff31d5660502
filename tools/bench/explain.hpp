// Explain: for each size that is measured, which backend and algorithm tutti takes, and why.
#pragma once

#include <string>
#include <vector>

#include "collectives/tutti.hpp"
#include "tools/bench/request.hpp"

namespace tutti::bench {

/// What Communicator::explain says of a case. `memory` has room for its buffers, and nobody reads it.
std::string explain(const Communicator& world, const Case& what, std::byte* memory);

/// One line for each run of sizes of which the same is true: "8 to 65536 bytes: planned/ring: rule ...". Local.
std::vector<std::string> explain_sizes(const Communicator& world, const Request& request);

}  // namespace tutti::bench
