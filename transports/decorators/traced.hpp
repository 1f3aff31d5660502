// traced: tells of every message.
#pragma once

#include <functional>
#include <memory>

#include "transports/transport.hpp"

namespace tutti {

/// One operation has started or ended, or a control message was sent.
struct TraceEvent {
  enum class Verb : std::uint8_t { send, recv, recv_reduce, control } verb = Verb::send;
  bool ended = false;   ///< false: started
  bool failed = false;  ///< ended, but not well
  int peer = -1;
  Tag tag;
  std::size_t bytes = 0;
};

/// `tell` is called by the holder of the progress token, inside the transport's calls; it must not call the transport.
std::unique_ptr<Transport> make_traced(std::unique_ptr<Transport> inner, std::function<void(const TraceEvent&)> tell);

}  // namespace tutti
