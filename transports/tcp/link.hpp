// One connection, as the tcp wire keeps it.
#pragma once

#include <memory>
#include <string>

#include "transports/core/clock.hpp"
#include "transports/tcp/wire.hpp"

namespace tutti::tcp {

inline constexpr std::size_t buffer_bytes = 128 << 10;
inline constexpr int end_grace_ms = 20;
inline constexpr int patience_ms = 200;  // most peers that are awaited write, and so connect, before that

struct TcpWire::Link {
  int stream = -1;
  Descriptor socket;
  std::string host, route;
  std::unique_ptr<std::byte[]> buffer;
  std::size_t begin = 0, end = 0;  // bytes in the buffer
  std::uint32_t watched = 0;       // events that the epoll watches for
  int misses = 0;                  // receives without a byte, in a row
  bool readable = false;           // the socket may have bytes
  bool plenty = false;             // the last receive filled what it was given
  bool active = false;             // in active_
  bool awaited = false;            // something is expected, but it is not active
  bool wanted = false;             // expect() was called since something came
  bool full = false;               // the socket took less than it was given
  bool over = false;               // the stream has ended
  bool broken = false;             // nothing can be written any more
  bool said_goodbye = false;
  bool judged = false;
  bool expected = false;  // expect() was called
  std::size_t large = 0;  // bytes of large messages so far
  Deadline expected_since{};
  Deadline ended_at{};
  int error = 0;

  std::size_t buffered() const noexcept { return end - begin; }
};

/// Of a peer's connections, those that there may be.
template <class Function>
void TcpWire::each_of(int peer, const Function& function) {
  for (std::size_t i = static_cast<std::size_t>(peer); i < links_.size(); i += static_cast<std::size_t>(size_))
    function(links_[i]);
}

}  // namespace tutti::tcp
