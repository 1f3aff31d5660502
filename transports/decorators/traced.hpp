// traced: reports every message.
#pragma once

#include <functional>
#include <memory>

#include "tutti/provider/transport.hpp"

namespace tutti {

/// An operation started or ended, or a control message was sent.
struct TraceEvent {
  enum class Verb : std::uint8_t { send, recv, recv_reduce, control } verb = Verb::send;
  bool ended = false;   ///< false: started
  bool failed = false;  ///< ended with a failure
  int peer = -1;
  Tag tag;
  std::size_t bytes = 0;
};

/// Calls `tell` inside the transport's functions, on the calling thread. `tell` must not call the transport.
std::unique_ptr<Transport> make_traced(std::unique_ptr<Transport> inner, std::function<void(const TraceEvent&)> tell);

}  // namespace tutti
