// shaped: a transport whose ranks are joined by links of a given latency and bandwidth.
#pragma once

#include <memory>

#include "transports/core/link_shape.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// Each rank has one full-duplex link to all others, as a host to its switch. What it sends shares the rate in one
/// direction, what it receives shares it in the other; messages to one peer leave one after the other, several peers'
/// in equal shares. A message of n bytes that meets no other ends n / rate + latency after its send(), and so does the
/// send(). Payloads count, not headers.
///
/// What tells of failures, control messages, and messages to oneself go past the links. There is no backend of the
/// transport's own. `now` is the clock, steady_clock where it is null; one that is given is never slept on.
std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, LinkShape shape,
                                       std::function<std::chrono::nanoseconds()> now = nullptr);

}  // namespace tutti
