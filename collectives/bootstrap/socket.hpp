// The few socket calls that the TCP store needs; private to collectives/bootstrap.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::sockets {

struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

/// "127.0.0.1:80", "[::1]:80".
std::string shown(const Address& address);
/// "host:80", "[::1]:80", from a name or a number.
std::string shown(std::string_view host, int port);

/// The number of an address, without its port.
std::string host_of(const sockaddr& address);

/// What the resolver knows; empty and `why` where it knows nothing. An empty host with `passive`: all interfaces.
std::vector<Address> resolve(const std::string& host, int port, bool passive, std::string& why);

/// Listens on the first address that allows it. Throws Error{resource}, saying why.
Descriptor listen_on(const std::string& host, int port);
int port_of(int fd);

/// Connects to one address; empty and errno where that fails by `until`.
Descriptor connect_to(const Address& address, Deadline until);

/// Blocks until `events` or `until`; false when late.
bool poll_until(int fd, short events, Deadline until);

/// poll()'s and epoll_wait()'s argument: milliseconds until then, rounded up, -1 for never.
int milliseconds_until(Deadline until);

}  // namespace tutti::sockets
