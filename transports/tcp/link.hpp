// Link: the state of one connection in the tcp wire.
#pragma once

#include <memory>
#include <string>

#include "transports/tcp/wire.hpp"
#include "tutti/clock.hpp"

namespace tutti::tcp {

inline constexpr std::size_t buffer_bytes = 128 << 10;
inline constexpr int end_grace_ms = 20;
inline constexpr int patience_ms = 200;  // an awaited peer usually connects within this time by itself

struct TcpWire::Link {
  int stream = -1;
  Descriptor socket;
  std::string route;
  std::unique_ptr<std::byte[]> buffer;
  std::size_t begin = 0, end = 0;  // range of unread bytes in the buffer
  std::uint32_t watched = 0;       // events for which the epoll is registered
  int misses = 0;                  // consecutive receives without data
  bool readable = false;           // the socket may have data
  bool plenty = false;             // the last receive filled its buffer
  bool active = false;             // in active_
  bool awaited = false;            // data are expected, but the link is not active
  bool wanted = false;             // expect() was called since data last arrived
  bool full = false;               // the socket took less than it was offered
  bool over = false;               // the stream has ended
  bool broken = false;             // nothing more can be written
  bool said_goodbye = false;
  bool judged = false;
  bool expected = false;  // expect() was called
  std::size_t large = 0;  // bytes of large messages so far
  Deadline expected_since{};
  Deadline ended_at{};
  int error = 0;

  std::size_t buffered() const noexcept { return end - begin; }
};

/// Calls `function` for each connection with `peer` that has been used.
template <class Function>
void TcpWire::each_of(int peer, const Function& function) {
  for (std::size_t i = static_cast<std::size_t>(peer); i < links_.size(); i += static_cast<std::size_t>(size_))
    if (Link* const at = links_.find(i)) function(*at);
}

}  // namespace tutti::tcp
