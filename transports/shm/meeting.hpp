// Connects the ranks of a host: one shared segment, and a link between every two ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/stream/transport.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::shm {

struct Met {
  std::unique_ptr<Wire> wire;  ///< null if no peer was reached
  std::vector<int> unreached;
  std::string reason;
};

/// Collective among the rank and its peers; blocks. Throws Error{resource}, the same on all of them, if the segment
/// cannot be made; Error{timeout} naming a missing rank.
Met meet(const Rendezvous& rendezvous);

}  // namespace tutti::shm
