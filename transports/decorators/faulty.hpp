// faulty: a transport for tests that delays and fails operations within the contract, from a seed.
#pragma once

#include <memory>

#include "tutti/provider/transport.hpp"

namespace tutti {

struct Faults {
  unsigned seed = 1;
  int delay = 8;       ///< operations reach the inner transport up to this many progress() calls late
  int laziness = 30;   ///< percentage of progress() calls that do nothing
  int lost_peer = -1;  ///< this rank is reported dead
  int lost_after = 0;  ///< after this many operations with it
};

/// Delays operations, which reorders those with different tags, and reports a lost peer.
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, TransportListener& listener, Faults faults);

}  // namespace tutti
