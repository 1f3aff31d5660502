// routed: one Transport made of several, each of which reaches some of the ranks.
#pragma once

#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace tutti {

/// Messages to rank r go through transports[route[r]]; route has `size` entries, that of `rank` itself
/// too. Causes are spread, operations cancelled and
/// memory adopted on all of them; arrived() from any rank asks them in turns.
/// Throws Error{invalid} for a route to a transport that is not there, Error{resource} without descriptors.
std::unique_ptr<Transport> make_routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports,
                                       std::vector<int> route);

}  // namespace tutti
