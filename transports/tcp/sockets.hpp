// Sockets as this transport wants them: non-blocking, closed on exec and in forked children, tuned.
#pragma once

#include <string>

#include "transports/addresses.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tcp {

/// A stream socket of this family. Throws Error{resource}.
Descriptor make_socket(int family, const std::string& congestion);

/// Listens at a free port of `address`, which is returned in `port`. An empty Descriptor, with errno, on failure.
Descriptor listen_at(const Address& address, const std::string& congestion, int& port);

/// Accepts one connection, which has its listener's congestion control; an empty Descriptor, with errno, where there is
/// none.
Descriptor accept_from(int listener);

/// No delay, keepalive, a silent host noticed in 15 s.
void tune(int socket) noexcept;

/// The first of the names, separated by commas, that this kernel has and lets us use; else its own default stays.
void set_congestion(int socket, const std::string& names) noexcept;

/// "10.0.0.2:4711"; "?" where there is no peer any more.
std::string peer_text(int socket);

/// "10.0.0.2:4711 via eth0": the peer's end, and the interface that has our end.
std::string route_text(int socket, const std::vector<Interface>& own);

/// An epoll instance. Throws Error{resource}.
Descriptor make_epoll();

/// Adds `fd` to `epoll`. Throws Error{resource}.
void watch_descriptor(int epoll, int fd, std::uint32_t events, std::uint64_t key);

/// A timer that becomes readable, stopped. Throws Error{resource}.
Descriptor make_timer();
/// First after `first_ms`, then every `every_ms` (0: once); 0 for both stops it.
void set_timer(int timer, int first_ms, int every_ms) noexcept;

/// An eventfd. Throws Error{resource}.
Descriptor make_event();
void raise_event(int event) noexcept;
/// Takes what a timer or an event holds, so that it is not readable any more.
void clear_event(int fd) noexcept;

/// Throws Error{resource} saying what was wanted, errno, and for a lack of descriptors what to do.
[[noreturn]] void throw_system(const char* what);

}  // namespace tutti::tcp
