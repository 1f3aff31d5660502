// Name resolution, listening and connecting with deadlines.
#include "collectives/bootstrap/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti::sockets {
namespace {

void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

std::string shown(std::string_view host, int port) {
  const bool bare_v6 = host.find(':') != std::string_view::npos;
  const std::string name(host);
  return (bare_v6 ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

std::string shown(const Address& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address.bytes), address.size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  std::string_view name = host;
  constexpr std::string_view mapped = "::ffff:";
  if (name.starts_with(mapped) && name.find('.') != std::string_view::npos) name.remove_prefix(mapped.size());
  return shown(name, std::stoi(port));
}

std::string host_of(const sockaddr& address) {
  char host[NI_MAXHOST];
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(&address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

std::vector<Address> resolve(const std::string& host, int port, bool passive, std::string& why) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    why = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    found.push_back(address);
  }
  // IPv6 first: an IPv6 socket on all interfaces also accepts IPv4.
  if (passive && host.empty())
    std::stable_partition(found.begin(), found.end(), [](const Address& a) { return a.bytes.ss_family == AF_INET6; });
  return found;
}

std::string loopback_host() {
  const std::string four = "127.0.0.1", six = "::1";
  std::string why;
  for (const std::string& host : {four, six})
    for (const Address& address : resolve(host, 0, true, why)) {
      const Descriptor fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (fd && bind(fd.fd(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0) return host;
    }
  return four;
}

bool is_loopback(const Address& address) {
  if (address.bytes.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.bytes).sin6_addr) != 0;
  constexpr std::uint32_t loopback_net = 127;
  return ntohl(reinterpret_cast<const sockaddr_in&>(address.bytes).sin_addr.s_addr) >> 24 == loopback_net;
}

Descriptor listen_on(const std::string& host, int port) {
  std::string why;
  for (const Address& address : resolve(host, port, true, why)) {
    Descriptor fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd) {
      set_option(fd.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (address.bytes.ss_family == AF_INET6) set_option(fd.fd(), IPPROTO_IPV6, IPV6_V6ONLY, host.empty() ? 0 : 1);
      if (bind(fd.fd(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0 &&
          listen(fd.fd(), SOMAXCONN) == 0)
        return fd;
    }
    why = std::generic_category().message(errno);
  }
  throw Error(Code::resource, "cannot listen on " +
                                  (host.empty() ? "port " + std::to_string(port) : shown(host, port)) +
                                  " for the store: " + why);
}

int port_of(int fd) {
  sockaddr_storage bytes = {};
  socklen_t size = sizeof bytes;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bytes), &size) != 0) return 0;
  if (bytes.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_port);
}

Descriptor connect_to(const Address& address, Deadline until) {
  Descriptor fd(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  set_option(fd.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.fd(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.fd(), IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd.fd(), IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(fd.fd(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  int error = 0;
  if (connect(fd.fd(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) {
    error = errno;
  } else if (!poll_until(fd.fd(), POLLOUT, until)) {
    error = ETIMEDOUT;
  } else {
    socklen_t size = sizeof error;
    getsockopt(fd.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return fd;
  fd.reset();
  errno = error;
  return fd;
}

bool poll_until(int fd, short events, Deadline until) {
  for (;;) {
    pollfd entry = {fd, events, 0};
    const int n = poll(&entry, 1, milliseconds_until(until));
    if (n > 0) return true;
    if (n == 0 && Clock::now() >= until) return false;
    if (n < 0 && errno != EINTR) return true;  // the caller's next call reports the error
  }
}

int milliseconds_until(Deadline until) {
  if (until == never) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  constexpr std::int64_t longest = 3'600'000;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, longest));
}

}  // namespace tutti::sockets
