// Routed: one Transport made of several, by rank: shm inside a host, tcp between hosts.
#pragma once

#include <memory>
#include <vector>

#include "transports/transport.hpp"

namespace tutti {

/// `route[rank]` is the index of the transport that reaches `rank`, of this rank itself too. Every one of
/// `transports` numbers the ranks alike and reports to the listener it was made with.
std::unique_ptr<Transport> make_routed(int rank, int size, std::vector<std::unique_ptr<Transport>> transports,
                                       std::vector<int> route);

}  // namespace tutti
