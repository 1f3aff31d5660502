// recorded: writes every message into the rank's flight recorder.
#pragma once

#include <memory>

#include "transports/core/recorder.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// Records each send, receive and control message: its tag, peer and bytes, its start and its end. The messages share
/// the ring with the calls, so fewer calls are kept. `recorder` must outlive the transport.
std::unique_ptr<Transport> make_recorded(std::unique_ptr<Transport> inner, Recorder& recorder);

}  // namespace tutti
