// The end of the tcp wire's streams, and peers that have not connected.
//
// A rank that dies closes its connections, and a rank that gives up after another's failure spreads the cause before it
// closes. So an end without a goodbye is reported only after 20 ms, in which the real cause may arrive. Information
// about a peer arrives on its first connection: the end of a further one counts only once the first has nothing more to
// read.
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/core/chaos.hpp"
#include "transports/tcp/link.hpp"
#include "transports/tcp/sockets.hpp"

namespace tutti::tcp {
namespace {

constexpr int most_reads = 16;  // reads between two checks of the clock

}  // namespace

// ---- the end of a stream ----

void TcpWire::end(Link& at, int error) {
  at.over = at.broken = true;
  at.error = error;
  at.ended_at = Clock::now();
  shut(at);
  if (at.said_goodbye) {
    at.judged = true;
    return;
  }
  ++ending_;
  set_timer(timer_.fd(), end_grace_ms, 0);
}

/// Closes the socket of an ended stream; its last bytes may still be in the buffer.
void TcpWire::shut(Link& at) noexcept {
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, at.socket.fd(), nullptr);
  at.socket.reset();
  at.full = at.readable = at.wanted = false;
  forget(at);
}

void TcpWire::farewell(int from) {
  Link& at = link(from);
  at.said_goodbye = true;
  if (at.over && !at.judged) {
    at.judged = true;
    --ending_;
  }
}

void TcpWire::drop(int peer) noexcept {
  judge(peer);
  for (std::size_t nth = 0; nth < streams_per_peer(); ++nth) {
    Link& at = link(peer + static_cast<int>(nth) * size_);
    if (at.socket) shut(at);
    at.over = at.broken = at.judged = true;
    at.readable = false;
    at.begin = at.end = 0;
  }
}

/// True if the end of a further connection has no meaning yet, because the peer's first connection has more to read.
bool TcpWire::first_explains(const Link& at) noexcept {
  Link& first = link(peer_of(at.stream));
  if (&first == &at || first.judged || first.said_goodbye) return false;
  if (first.over || first.buffered() > 0) return true;
  std::byte next{};
  return !first.socket || ::recv(first.socket.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/// Marks all ended connections of a peer as judged, so that the peer is reported once.
void TcpWire::judge(int peer) noexcept {
  each_of(peer, [this](Link& at) {
    if (at.over && !std::exchange(at.judged, true)) --ending_;
  });
}

void TcpWire::judge_ends() {
  const Deadline ripe = Clock::now() - std::chrono::milliseconds(end_grace_ms);
  links_.each([&](std::size_t, Link& at) {
    if (!at.over || at.judged || at.buffered() > 0 || at.ended_at > ripe || first_explains(at)) return;
    judge(peer_of(at.stream));
    report_end(at);
  });
  if (ending_ > 0) set_timer(timer_.fd(), end_grace_ms, 0);
}

void TcpWire::report_end(const Link& at) {
  const Link& first = link(peer_of(at.stream));
  const std::string host = acceptor_->host_of(first.stream);
  const std::string who = "rank " + std::to_string(first.stream) + " on host " + host;
  Cause cause;
  cause.code = Code::peer_lost;
  cause.culprit = first.stream;
  cause.reporter = rank_;
  std::strncpy(cause.host, host.c_str(), sizeof cause.host - 1);
  if (at.error == ETIMEDOUT || at.error == EHOSTUNREACH || at.error == ENETUNREACH) {
    cause.say(who + " has fallen silent (" + std::strerror(at.error) + " on " + at.route +
              "). Is the host up, and is the network between the hosts?");
  } else if (first.socket) {
    cause.say(
        "one of the connections with " + who + " broke, although the others did not: " + at.route +
        ". What is between the hosts, a firewall or a load balancer, may allow fewer: lower TUTTI_TCP_CONNECTIONS.");
  } else {
    cause.say(who + " closed the connection without a goodbye: its process died or was killed. See its own output" +
              ", and the kernel's log for the out-of-memory killer.");
  }
  listener_.failed(cause);
}

// ---- awaited peers to which nothing was written ----

void TcpWire::expect(int from) {
  Link& at = link(from);
  at.wanted = true;
  if (at.socket && !at.active) await(at);
  if (at.socket || at.over || at.expected) return;
  at.expected = true;
  at.expected_since = Clock::now();
  if (expected_.empty()) set_timer(patience_.fd(), patience_ms, 0);
  expected_.push_back(from);
}

/// Connects to awaited peers that have not connected in time, which is the only way to detect that they are dead.
void TcpWire::open_expected() {
  clear_event(patience_.fd());
  const Deadline ripe = Clock::now() - std::chrono::milliseconds(patience_ms);
  std::erase_if(expected_, [&](int peer) {
    const Link& at = link(peer);
    if (at.socket || at.over) return true;
    if (at.expected_since > ripe) return false;
    acceptor_->open(peer);
    return true;
  });
  if (!expected_.empty()) set_timer(patience_.fd(), patience_ms, 0);
}

// ---- chaos ----

/// Ends the connections with the peer that chaos cuts from this rank, as a broken network would.
void TcpWire::cut_links() noexcept {
  const int peer = system_faults::peer_cut_from(rank_);
  if (peer < 0 || peer >= size_) return;
  each_of(peer, [this](Link& at) {
    if (!at.socket) return;
    ::shutdown(at.socket.fd(), SHUT_RDWR);
    activate(at);
  });
}

// ---- closing ----

/// Discards unread data; true once the peer's kernel has acknowledged everything sent. Closing a socket with unread
/// data would send a reset, which may overtake the last data.
bool TcpWire::drained(Link& at) noexcept {
  ssize_t got = 1;
  for (int i = 0; i < most_reads && (got > 0 || (got < 0 && errno == EINTR)); ++i)
    got = system_faults::interruptible(
        [&] { return ::recv(at.socket.fd(), at.buffer.get(), buffer_bytes, MSG_DONTWAIT); });
  if (got > 0 || (got < 0 && errno == EINTR)) return false;  // limits the reads from a peer that keeps sending
  if (got == 0 || errno != EAGAIN) return true;
  int unacknowledged = 0;
  return ::ioctl(at.socket.fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

void TcpWire::close(Deadline until) noexcept {
  links_.each([](std::size_t, Link& at) {
    if (at.socket) ::shutdown(at.socket.fd(), SHUT_WR);
  });
  for (;;) {
    bool all = true;
    links_.each([&](std::size_t, Link& at) {
      if (!at.socket) return;
      if (drained(at)) {
        shut(at);
        at.over = at.broken = at.judged = true;
      } else {
        all = false;
      }
    });
    if (all || Clock::now() >= until) return;
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace tutti::tcp
