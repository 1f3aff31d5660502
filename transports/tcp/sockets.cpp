// Non-blocking sockets, closed on exec and in forked children, and their options.
#include "transports/tcp/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/core/chaos.hpp"
#include "transports/core/open_files.hpp"
#include "tutti/status.hpp"

namespace tutti::tcp {
namespace {

void set_option(int socket, int level, int option, int value) noexcept {
  setsockopt(socket, level, option, &value, sizeof value);
}

Descriptor require(int fd, const char* what) {
  if (fd < 0) throw_system(what);
  return Descriptor(fd);
}

}  // namespace

void throw_system(const char* what) {
  const int error = errno;
  std::string text = std::string("tcp: no ") + what + ": " + std::strerror(error);
  if (const std::string more = about_open_files(error, 1); !more.empty()) text += ". " + more;
  throw Error(Code::resource, text);
}

Descriptor make_socket(int family, const std::string& congestion) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return made;
  tune(made.fd());
  set_congestion(made.fd(), congestion);
  return made;
}

Descriptor listen_at(const Address& address, const std::string& congestion, int& port) {
  const int fd = ::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  Descriptor listener(fd);
  tune(fd);
  set_congestion(fd, congestion);
  if (address.family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  sockaddr_storage where;
  socklen_t length = address.socket_address(0, where);
  auto* const generic = reinterpret_cast<sockaddr*>(&where);
  if (::bind(fd, generic, length) != 0 || ::listen(fd, SOMAXCONN) != 0 || ::getsockname(fd, generic, &length) != 0) {
    return {};
  }
  port = ntohs(where.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(where).sin_port
                                          : reinterpret_cast<sockaddr_in6&>(where).sin6_port);
  return listener;
}

Descriptor accept_from(int listener) {
  const int fd =
      system_faults::interruptible([=] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  return fd < 0 ? Descriptor() : Descriptor(fd);
}

void tune(int socket) noexcept {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 15000);
}

void set_congestion(int socket, const std::string& names) noexcept {
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t length = std::min(names.find(',', at), names.size()) - at;
    if (length > 0 &&
        setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, names.data() + at, static_cast<socklen_t>(length)) == 0)
      return;
    at += length + 1;
  }
}

namespace {

std::string endpoint_of(const sockaddr_storage& socket) {
  const int port = ntohs(socket.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(socket).sin_port
                                                     : reinterpret_cast<const sockaddr_in6&>(socket).sin6_port);
  return endpoint_text(Address::from(reinterpret_cast<const sockaddr&>(socket)), port);
}

}  // namespace

std::string peer_text(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) == 0 ? endpoint_of(peer) : "?";
}

std::string route_text(int socket, const std::vector<Interface>& own) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  std::string text = peer_text(socket);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &length) != 0) return text;
  const Address address = Address::from(reinterpret_cast<sockaddr&>(local));
  for (const Interface& interface : own) {
    if (interface.address == address) return text + " via " + interface.name;
  }
  return text;
}

Descriptor make_epoll() { return require(::epoll_create1(EPOLL_CLOEXEC), "epoll instance"); }

void watch_descriptor(int epoll, int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) throw_system("place in an epoll instance");
}

Descriptor make_timer() { return require(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timer"); }

void set_timer(int timer, int first_ms, int every_ms) noexcept {
  itimerspec when{};
  when.it_value = {first_ms / 1000, first_ms % 1000 * 1'000'000L};
  when.it_interval = {every_ms / 1000, every_ms % 1000 * 1'000'000L};
  ::timerfd_settime(timer, 0, &when, nullptr);
}

Descriptor make_event() { return require(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"); }

void raise_event(int event) noexcept { ::eventfd_write(event, 1); }

void clear_event(int fd) noexcept {
  std::uint64_t count = 0;
  while (system_faults::interruptible([&] { return ::read(fd, &count, sizeof count); }) < 0 && errno == EINTR) {
  }
}

}  // namespace tutti::tcp
