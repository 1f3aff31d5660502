// chaos: a transport for tests that delays and fails operations on purpose, from a seed.
#pragma once

#include <memory>

#include "transports/core/chaos.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// Plays the faults `chaos` of this rank. Faults of system calls are played as long as the transport lives.
///
/// Operations with different tags are reordered by `delay`; those with equal tags are not. A step is an operation or a
/// call of the transport's own backend. `kill` and `stop` send the signal to this process, at the step or up to `delay`
/// progress() calls later. Ranks that are threads (inproc) share the process: `kill` then ends all operations of the
/// rank, which reports itself lost, and `stop` throws Error{invalid}. `cut` ends the connection, if the peer is reached
/// by tcp; another peer is reported lost. `lose` reports the rank lost at its peers.
std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport> inner, TransportListener& listener,
                                      const Chaos& chaos);

}  // namespace tutti
