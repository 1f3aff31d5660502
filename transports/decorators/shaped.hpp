// shaped: simulates links of a given latency and bandwidth.
#pragma once

#include <memory>

#include "transports/core/link_shape.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// Each rank has one full-duplex link to all others, like a host connected to a switch. Messages that a rank sends
/// share the rate of one direction; messages that it receives share the rate of the other. Messages to one peer are
/// sent in order; several peers share the rate equally. A message of n bytes without contention completes n / rate +
/// latency after its send(), at the sender too. Only payloads count, not headers.
///
/// Failures, control messages and messages of a rank to itself are not delayed. The transport's own backend is not
/// used. `now` is the clock, by default steady_clock. With another clock, do not sleep on fds(): its timer is
/// steady_clock's.
std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, LinkShape shape,
                                       std::function<std::chrono::nanoseconds()> now = nullptr);

}  // namespace tutti
