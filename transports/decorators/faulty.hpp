// faulty: a transport that behaves as badly as the contract allows, from a seed.
#pragma once

#include <memory>

#include "transports/transport.hpp"

namespace tutti {

struct Faults {
  unsigned seed = 1;
  int delay = 8;       ///< an operation reaches the transport up to this many progress() calls late
  int laziness = 30;   ///< so many of 100 progress() calls do nothing
  int lost_peer = -1;  ///< this rank is reported dead ...
  int lost_after = 0;  ///< ... once so many operations with it have started
};

/// Delays operations, which reorders those with different tags; loses a peer on purpose.
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, TransportListener& listener, Faults faults);

}  // namespace tutti
