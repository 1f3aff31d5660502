// Non-blocking sockets, closed on exec and in forked children, and their options.
#pragma once

#include <string>

#include "transports/addresses.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tcp {

/// Makes a stream socket of this address family. Returns an empty Descriptor, with errno, on failure.
Descriptor make_socket(int family, const std::string& congestion);

/// Listens at a free port of `address`, stored in `port`. Returns an empty Descriptor, with errno, on failure.
Descriptor listen_at(const Address& address, const std::string& congestion, int& port);

/// Accepts one connection, which inherits the listener's congestion control. Returns an empty Descriptor, with errno,
/// if there is none.
Descriptor accept_from(int listener);

/// Sets TCP_NODELAY and keepalive; a silent host is detected after 15 s.
void tune(int socket) noexcept;

/// Sets the first congestion control of the comma-separated list that the kernel has and allows; else keeps the
/// default.
void set_congestion(int socket, const std::string& names) noexcept;

/// The peer's address, "10.0.0.2:4711"; "?" if it is no longer connected.
std::string peer_text(int socket);

/// "10.0.0.2:4711 via eth0": the peer's address and the local interface.
std::string route_text(int socket, const std::vector<Interface>& own);

/// An epoll instance. Throws Error{resource}.
Descriptor make_epoll();

/// Adds `fd` to `epoll`. Throws Error{resource}.
void watch_descriptor(int epoll, int fd, std::uint32_t events, std::uint64_t key);

/// A stopped timerfd. Throws Error{resource}.
Descriptor make_timer();
/// Expires after `first_ms`, then every `every_ms` (0: once); 0 for both stops it.
void set_timer(int timer, int first_ms, int every_ms) noexcept;

/// An eventfd. Throws Error{resource}.
Descriptor make_event();
void raise_event(int event) noexcept;
/// Reads a timer or an event, so that it is not readable any more.
void clear_event(int fd) noexcept;

/// Throws Error{resource}. Its text contains `what` and errno, and what to do if descriptors are lacking.
[[noreturn]] void throw_system(const char* what);

}  // namespace tutti::tcp
