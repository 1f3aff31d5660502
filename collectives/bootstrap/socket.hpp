// Socket functions for the TCP store; private to collectives/bootstrap.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::sockets {

struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

/// Formats an address: "127.0.0.1:80", "[::1]:80".
std::string shown(const Address& address);
/// Formats a host name or address with a port: "host:80", "[::1]:80".
std::string shown(std::string_view host, int port);

/// The numeric address without its port.
std::string host_of(const sockaddr& address);

/// The addresses of a host; if there are none, empty with the reason in `why`. An empty host with `passive` means all
/// interfaces.
std::vector<Address> resolve(const std::string& host, int port, bool passive, std::string& why);

/// This host's loopback address: 127.0.0.1, or ::1 if only that address can be bound.
std::string loopback_host();
/// True if connections to this address stay on this host.
bool is_loopback(const Address& address);

/// Listens on the first address that allows it. Throws Error{resource} with the reason.
Descriptor listen_on(const std::string& host, int port);
int port_of(int fd);

/// Connects to an address; on failure or at `until` returns an empty Descriptor and sets errno.
Descriptor connect_to(const Address& address, Deadline until);

/// Waits for `events`; false if `until` has passed first.
bool poll_until(int fd, short events, Deadline until);

/// The timeout for poll() and epoll_wait(): milliseconds until then, rounded up; -1 for never.
int milliseconds_until(Deadline until);

}  // namespace tutti::sockets
