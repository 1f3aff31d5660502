// How the ranks of a host come together: one segment, a link between every two of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/provider.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::shm {

struct Met {
  std::unique_ptr<Wire> wire;  ///< null when nobody was reached
  std::vector<int> unreached;
  std::string reason;
};

/// Collective among rank and peers. Throws Error{resource}, the same on all of them, when the segment cannot be
/// made; Error{timeout} naming who did not come.
Met meet(const Rendezvous& rendezvous);

}  // namespace tutti::shm
