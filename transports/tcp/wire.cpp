// The tcp wire's data path.
//
// Reading: a socket that epoll reports stays in `active_` until a receive came back short, so a
// stream of data costs no epoll_wait in between. Small reads go through a buffer of the link; a
// large read receives into the caller's memory and, in the same system call, what follows it into
// the buffer. Writing: one sendmsg for header and payload; a socket that is full is asked again
// only after epoll said that it is writable.
//
// The end of a stream: a rank that dies takes its connections along, and a rank that gives up
// after somebody else's failure spreads the cause before it closes. So an end without a goodbye
// is held back for 20 ms, in which the real cause may arrive, and only then reported.
#include "transports/tcp/wire.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transports/tcp/sockets.hpp"

namespace tutti::tcp {
namespace {

constexpr std::size_t buffer_bytes = 128 << 10;
constexpr std::size_t most_pieces = 64;
constexpr int end_grace_ms = 20;
constexpr int patience_ms = 200;  // most peers that are awaited write, and so connect, before that
constexpr int most_reads = 16;    // between two looks at the clock

// Keys of what is not a link in the epoll.
constexpr std::uint64_t door_key = ~std::uint64_t{0}, news_key = door_key - 1, timer_key = door_key - 2,
                        patience_key = door_key - 3;

}  // namespace

struct TcpWire::Link {
  int peer = -1;
  Descriptor socket;
  std::string host, route;
  std::unique_ptr<std::byte[]> buffer;
  std::size_t begin = 0, end = 0;  // bytes in the buffer
  bool readable = false;           // the socket may have bytes
  bool active = false;             // in active_
  bool full = false;               // the socket took less than it was given
  bool over = false;               // the stream has ended
  bool broken = false;             // nothing can be written any more
  bool said_goodbye = false;
  bool judged = false;
  bool expected = false;  // expect() was called
  Deadline expected_since{};
  Deadline ended_at{};
  int error = 0;

  std::size_t buffered() const noexcept { return end - begin; }
};

TcpWire::TcpWire(int rank, int size, std::unique_ptr<Door> door, const std::vector<Card>& peers,
                 TransportListener& listener)
    : rank_(rank),
      listener_(listener),
      door_(std::move(door)),
      epoll_(make_epoll()),
      timer_(make_timer()),
      patience_(make_timer()),
      links_(static_cast<std::size_t>(size)) {
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].peer = static_cast<int>(i);
  for (const Card& peer : peers) link(peer.rank).host = peer.host;
  watch_descriptor(epoll_.fd(), door_->fd(), EPOLLIN, door_key);
  watch_descriptor(epoll_.fd(), door_->news(), EPOLLIN, news_key);
  watch_descriptor(epoll_.fd(), timer_.fd(), EPOLLIN, timer_key);
  watch_descriptor(epoll_.fd(), patience_.fd(), EPOLLIN, patience_key);
}

TcpWire::~TcpWire() = default;

TcpWire::Link& TcpWire::link(int rank) noexcept { return links_[static_cast<std::size_t>(rank)]; }

bool TcpWire::open(int to) const noexcept {
  const Link& at = links_[static_cast<std::size_t>(to)];
  return at.socket && !at.broken;
}

void TcpWire::add(Opened opened) {
  Link& at = link(opened.peer);
  if (at.over) return;  // dropped before it was open
  at.socket = std::move(opened.socket);
  at.route = std::move(opened.route);
  at.buffer = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
  watch_descriptor(epoll_.fd(), at.socket.fd(), EPOLLIN | EPOLLRDHUP, static_cast<std::uint64_t>(at.peer));
  news_ = true;
}

// ---- writing ----

std::size_t TcpWire::write(int to, std::span<const ConstBytes> pieces) {
  Link& at = link(to);
  if (!at.socket) {
    if (!at.over) door_->open(to);
    return 0;
  }
  if (at.full || at.broken) return 0;
  std::array<iovec, most_pieces> parts;
  std::size_t count = 0, size = 0;
  for (const ConstBytes piece : pieces.first(std::min(pieces.size(), most_pieces))) {
    if (piece.empty()) continue;
    parts[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    size += piece.size();
  }
  if (count == 0) return 0;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ssize_t wrote = 0;
  do {
    wrote = ::sendmsg(at.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (wrote < 0 && errno == EINTR);
  if (wrote < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
    // The peer is gone; what it had sent, perhaps why, is still to be read, up to the end.
    at.broken = true;
    note(at, EPOLLIN);
    return 0;
  }
  const std::size_t done = wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
  if (done < size) want_writable(at, true);
  return done;
}

void TcpWire::want_writable(Link& at, bool on) noexcept {
  at.full = on;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | (on ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
  event.data.u64 = static_cast<std::uint64_t>(at.peer);
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, at.socket.fd(), &event);
}

// ---- reading ----

std::size_t TcpWire::receive(Link& from, Bytes first, Bytes second) {
  std::array<iovec, 2> parts = {iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = second.empty() ? 1 : 2;
  ssize_t got = 0;
  do {
    got = ::recvmsg(from.socket.fd(), &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    // A short receive emptied the socket; epoll tells, level-triggered, of what comes later.
    from.readable = static_cast<std::size_t>(got) == first.size() + second.size();
    return static_cast<std::size_t>(got);
  }
  from.readable = false;
  if (got == 0 || errno != EAGAIN) end(from, got == 0 ? 0 : errno);
  return 0;
}

void TcpWire::fill(Link& from) {
  if (from.buffered() > 0 || !from.readable) return;
  from.begin = 0;
  from.end = receive(from, {from.buffer.get(), buffer_bytes}, {});
}

ConstBytes TcpWire::peek(int from) {
  Link& at = link(from);
  fill(at);
  return {at.buffer.get() + at.begin, at.buffered()};
}

void TcpWire::consume(int from, std::size_t bytes) { link(from).begin += bytes; }

std::size_t TcpWire::read(int from, Bytes into) {
  Link& at = link(from);
  std::size_t done = std::min(at.buffered(), into.size());
  if (done > 0) std::memcpy(into.data(), at.buffer.get() + at.begin, done);
  at.begin += done;
  while (done < into.size() && at.readable) {
    const Bytes rest = into.subspan(done);
    const std::size_t got = receive(at, rest, {at.buffer.get(), buffer_bytes});
    at.begin = 0;
    at.end = got > rest.size() ? got - rest.size() : 0;
    done += std::min(got, rest.size());
  }
  return done;
}

// ---- polling ----

void TcpWire::note(Link& at, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && at.full) {
    want_writable(at, false);
    news_ = true;
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0 || at.over) return;
  at.readable = true;
  if (!at.active) active_.push_back(at.peer);
  at.active = true;
}

void TcpWire::poll(std::vector<int>& ranks) {
  news_ = false;
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == door_key) {
      door_->attend();
    } else if (event.data.u64 == news_key) {
      for (Opened& opened : door_->take()) add(std::move(opened));
    } else if (event.data.u64 == timer_key) {
      clear_event(timer_.fd());
    } else if (event.data.u64 == patience_key) {
      open_expected();
    } else {
      note(link(static_cast<int>(event.data.u64)), event.events);
    }
  }
  std::erase_if(active_, [this](int peer) {
    Link& at = link(peer);
    at.active = at.readable || at.buffered() > 0;
    return !at.active;
  });
  ranks.insert(ranks.end(), active_.begin(), active_.end());
  if (ending_ > 0) judge_ends();
}

bool TcpWire::arm(bool on) {
  if (!on) return true;
  return !news_ && std::ranges::none_of(active_, [this](int peer) {
    const Link& at = link(peer);
    return at.readable || at.buffered() > 0;
  });
}

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

/// Closes the socket of a stream that has ended; its last bytes may still be in the buffer.
void TcpWire::shut(Link& at) noexcept {
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, at.socket.fd(), nullptr);
  at.socket.reset();
  at.full = false;
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
  Link& at = link(peer);
  if (at.over && !at.judged) --ending_;
  if (at.socket) shut(at);
  at.over = at.broken = at.judged = true;
  at.readable = false;
  at.begin = at.end = 0;
}

void TcpWire::judge_ends() {
  const Deadline ripe = Clock::now() - std::chrono::milliseconds(end_grace_ms);
  for (Link& at : links_) {
    if (!at.over || at.judged || at.buffered() > 0 || at.ended_at > ripe) continue;
    at.judged = true;
    --ending_;
    const std::string who = "rank " + std::to_string(at.peer) + " on host " + at.host;
    Cause cause;
    cause.code = Code::peer_lost;
    cause.culprit = at.peer;
    cause.reporter = rank_;
    std::strncpy(cause.host, at.host.c_str(), sizeof cause.host - 1);
    if (at.error == ETIMEDOUT || at.error == EHOSTUNREACH || at.error == ENETUNREACH) {
      cause.say(who + " has fallen silent (" + std::strerror(at.error) + " on " + at.route +
                "). Is the host up, and is the network between the hosts?");
    } else {
      cause.say(who + " closed the connection without a goodbye: its process died or was killed. See its own output" +
                ", and the kernel's log for the out-of-memory killer.");
    }
    listener_.failed(cause);
  }
  if (ending_ > 0) set_timer(timer_.fd(), end_grace_ms, 0);
}

// ---- peers that are awaited but were never written to ----

void TcpWire::expect(int from) {
  Link& at = link(from);
  if (at.socket || at.over || at.expected) return;
  at.expected = true;
  at.expected_since = Clock::now();
  if (expected_.empty()) set_timer(patience_.fd(), patience_ms, 0);
  expected_.push_back(from);
}

/// Calls those that had their time to call us: who is dead is noticed by this alone.
void TcpWire::open_expected() {
  clear_event(patience_.fd());
  const Deadline ripe = Clock::now() - std::chrono::milliseconds(patience_ms);
  std::erase_if(expected_, [&](int peer) {
    const Link& at = link(peer);
    if (at.socket || at.over) return true;
    if (at.expected_since > ripe) return false;
    door_->open(peer);
    return true;
  });
  if (!expected_.empty()) set_timer(patience_.fd(), patience_ms, 0);
}

std::string TcpWire::describe(int to) const { return links_[static_cast<std::size_t>(to)].route; }

// ---- closing ----

/// Reads away what nobody wants any more; true when the peer's kernel has everything we sent. A
/// socket closed with unread bytes would send a reset, which may overtake our last words.
bool TcpWire::drained(Link& at) noexcept {
  ssize_t got = 1;
  for (int i = 0; i < most_reads && (got > 0 || (got < 0 && errno == EINTR)); ++i)
    got = ::recv(at.socket.fd(), at.buffer.get(), buffer_bytes, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && errno == EINTR)) return false;  // a peer that streams on is not waited for for ever
  if (got == 0 || errno != EAGAIN) return true;
  int unacknowledged = 0;
  return ::ioctl(at.socket.fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

void TcpWire::close(Deadline until) noexcept {
  for (Link& at : links_) {
    if (at.socket) ::shutdown(at.socket.fd(), SHUT_WR);
  }
  for (;;) {
    bool all = true;
    for (Link& at : links_) {
      if (!at.socket) continue;
      if (drained(at)) {
        shut(at);
        at.over = at.broken = at.judged = true;
      } else {
        all = false;
      }
    }
    if (all || Clock::now() >= until) return;
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace tutti::tcp
