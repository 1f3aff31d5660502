// The data path of the tcp wire.
//
// Reading: the epoll reports a socket once (EPOLLONESHOT), and from then on it is active: every poll() receives from it
// directly, and the epoll does not watch it, which would cost the sender a wake-up of each watcher per message. If many
// sockets are active, silent ones return to the epoll; before a sleep all do. While only active sockets are awaited,
// the epoll is checked rarely. The first receive is small: it takes a header with a small payload, or the start of a
// large payload. One further system call receives the rest into the caller's memory, together with the bytes that
// follow it. A further connection returns to the epoll as soon as it is silent, because small messages never use it.
//
// Writing: one sendmsg for header and payload. A full socket is retried by the next poll() while awake, and watched for
// room during a sleep.
#include "transports/tcp/wire.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transports/core/chaos.hpp"
#include "transports/tcp/link.hpp"
#include "transports/tcp/sockets.hpp"

namespace tutti::tcp {
namespace {

constexpr std::size_t first_bytes = 16 << 10;  // buffer bytes for a receive that may find a small message
constexpr std::size_t after_bytes = 4 << 10;   // the same, after a large message
constexpr StreamLimits stream_limits{64 << 10, 256 << 10, 64 << 10, 512 << 10};
constexpr std::size_t few = 4;   // up to this many active links stay active even if they are silent
constexpr int most_misses = 4;   // if more are active: empty receives in a row until the epoll watches a link
constexpr int most_unseen = 32;  // polls between two checks of the epoll; each 8 KiB moved count as one poll
constexpr std::size_t most_pieces = 64;
constexpr std::size_t wide_bytes = 4 << 20;  // bytes of large messages to a peer before further connections are opened

// Epoll keys of descriptors that are not links.
constexpr std::uint64_t acceptor_key = ~std::uint64_t{0}, news_key = acceptor_key - 1, timer_key = acceptor_key - 2,
                        patience_key = acceptor_key - 3;

}  // namespace

TcpWire::TcpWire(int rank, int size, std::unique_ptr<Acceptor> acceptor, TransportListener& listener)
    : rank_(rank),
      size_(size),
      listener_(listener),
      acceptor_(std::move(acceptor)),
      epoll_(make_epoll()),
      timer_(make_timer()),
      patience_(make_timer()),
      links_(static_cast<std::size_t>(size) * static_cast<std::size_t>(acceptor_->most_connections())) {
  watch_descriptor(epoll_.fd(), acceptor_->fd(), EPOLLIN, acceptor_key);
  watch_descriptor(epoll_.fd(), acceptor_->news(), EPOLLIN, news_key);
  watch_descriptor(epoll_.fd(), timer_.fd(), EPOLLIN, timer_key);
  watch_descriptor(epoll_.fd(), patience_.fd(), EPOLLIN, patience_key);
}

TcpWire::~TcpWire() = default;

StreamLimits TcpWire::limits() const noexcept { return stream_limits; }

std::size_t TcpWire::streams_per_peer() const noexcept { return links_.size() / static_cast<std::size_t>(size_); }

TcpWire::Link& TcpWire::link(int stream) {
  Link& at = links_[static_cast<std::size_t>(stream)];
  at.stream = stream;
  return at;
}

bool TcpWire::open(int to) const noexcept {
  const Link* const at = links_.find(static_cast<std::size_t>(to));
  return at != nullptr && at->socket && !at->broken;
}

void TcpWire::add(Opened opened) {
  Link& at = link(opened.stream);
  if (at.over) return;  // dropped before it was open
  at.socket = std::move(opened.socket);
  at.route = std::move(opened.route);
  at.buffer = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
  watch_descriptor(epoll_.fd(), at.socket.fd(), EPOLLONESHOT, static_cast<std::uint64_t>(at.stream));
  activate(at);
  news_ = true;
}

// ---- active and watched links ----

void TcpWire::activate(Link& at) {
  at.misses = 0;
  if (at.active) return;
  at.active = true;
  forget(at);
  active_.push_back(at.stream);
}

void TcpWire::await(Link& at) noexcept {
  if (at.awaited) return;
  at.awaited = true;
  ++awaited_;
}

void TcpWire::forget(Link& at) noexcept {
  if (!at.awaited) return;
  at.awaited = false;
  --awaited_;
}

/// True if poll() keeps receiving from `at`; if not, the epoll watches it.
bool TcpWire::stays_active(Link& at) {
  if (at.buffered() > 0) return true;
  if (!at.socket) return at.active = false;
  if (at.full || at.misses < most_misses || (at.stream < size_ && active_.size() <= few)) return true;
  watch_link(at);
  return false;
}

/// Makes the epoll report `at` once.
void TcpWire::watch_link(Link& at) noexcept {
  at.active = at.readable = false;
  if (at.wanted) await(at);
  const std::uint32_t events = EPOLLIN | EPOLLRDHUP | (at.full ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
  if (at.watched == events) return;
  at.watched = events;
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = static_cast<std::uint64_t>(at.stream);
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, at.socket.fd(), &event);
}

// ---- writing ----

void TcpWire::widen(int to, std::size_t bytes) {
  Link& first = link(to);
  if (first.large >= wide_bytes) return;  // the further connections have been requested
  first.large += bytes;
  if (first.large < wide_bytes) return;
  for (int nth = 1; nth < acceptor_->connections(to); ++nth) acceptor_->open(to + nth * size_);
}

std::size_t TcpWire::write(int to, std::span<const ConstBytes> pieces) {
  Link& at = link(to);
  if (!at.socket) {
    if (!at.over) acceptor_->open(to);
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
  if (system_faults::is_on()) [[unlikely]]
    system_faults::shorten(message);
  ssize_t wrote = 0;
  do {
    wrote =
        system_faults::interruptible([&] { return ::sendmsg(at.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
  } while (wrote < 0 && errno == EINTR);
  if (wrote < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
    // The peer is gone; data it sent before, such as the cause, are still read to the end.
    at.broken = true;
    activate(at);
    return 0;
  }
  const std::size_t done = wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
  unseen_ += static_cast<int>(done >> 13);
  if (done < size) {
    at.full = true;
    activate(at);
  }
  return done;
}

// ---- reading ----

std::size_t TcpWire::receive(Link& from, Bytes first, Bytes second) {
  std::array<iovec, 2> parts = {iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = second.empty() ? 1 : 2;
  if (system_faults::is_on()) [[unlikely]]
    system_faults::shorten(message);
  ssize_t got = 0;
  do {
    got = system_faults::interruptible([&] { return ::recvmsg(from.socket.fd(), &message, MSG_DONTWAIT); });
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    // A short receive has emptied the socket; the next poll() tries it again.
    from.readable = from.plenty = static_cast<std::size_t>(got) == first.size() + second.size();
    from.misses = 0;
    from.wanted = false;
    unseen_ += static_cast<int>(got >> 13);
    return static_cast<std::size_t>(got);
  }
  from.readable = from.plenty = false;
  ++from.misses;
  if (got == 0 || errno != EAGAIN) end(from, got == 0 ? 0 : errno);
  return 0;
}

void TcpWire::fill(Link& from) {
  if (from.buffered() > 0 || !from.readable) return;
  from.begin = 0;
  from.end = receive(from, {from.buffer.get(), from.plenty ? buffer_bytes : first_bytes}, {});
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
    const std::size_t got = receive(at, rest, {at.buffer.get(), after_bytes});
    at.begin = 0;
    at.end = got > rest.size() ? got - rest.size() : 0;
    done += std::min(got, rest.size());
  }
  return done;
}

// ---- polling ----

void TcpWire::note(Link& at, std::uint32_t events) {
  at.watched = 0;
  if (at.over) return;
  if ((events & EPOLLOUT) != 0) news_ = true;
  activate(at);
}

void TcpWire::look() {
  std::array<epoll_event, 64> events;
  const int count = system_faults::interruptible(
      [&] { return ::epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0); });
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == acceptor_key) {
      acceptor_->attend();
    } else if (event.data.u64 == news_key) {
      for (Opened& opened : acceptor_->take()) add(std::move(opened));
    } else if (event.data.u64 == timer_key) {
      clear_event(timer_.fd());
    } else if (event.data.u64 == patience_key) {
      open_expected();
    } else {
      note(link(static_cast<int>(event.data.u64)), event.events);
    }
  }
}

void TcpWire::poll(std::vector<int>& streams) {
  news_ = false;
  if (system_faults::is_on()) [[unlikely]]
    cut_links();
  std::erase_if(active_, [this](int stream) { return !stays_active(link(stream)); });
  if (active_.empty() || awaited_ > 0 || ++unseen_ >= most_unseen) {
    unseen_ = 0;
    look();
  }
  for (const int stream : active_) {
    Link& at = link(stream);
    at.readable = static_cast<bool>(at.socket);
    at.full = false;
  }
  streams.insert(streams.end(), active_.begin(), active_.end());
  if (ending_ > 0) judge_ends();
}

bool TcpWire::arm(bool on) {
  if (!on) return true;
  const auto has_more = [this](int stream) { return link(stream).readable || link(stream).buffered() > 0; };
  if (news_ || std::ranges::any_of(active_, has_more)) return false;
  for (const int stream : active_) {
    if (Link& at = link(stream); at.socket)
      watch_link(at);
    else
      at.active = false;
  }
  active_.clear();
  return true;
}

std::string TcpWire::describe(int to) const {
  int connections = 0;
  for (std::size_t nth = 0; nth < streams_per_peer(); ++nth)
    connections += open(to + static_cast<int>(nth) * size_) ? 1 : 0;
  const Link* const first = links_.find(static_cast<std::size_t>(to));
  const std::string route = first == nullptr ? std::string() : first->route;
  return connections < 2 ? route : route + ", " + std::to_string(connections) + " connections";
}

}  // namespace tutti::tcp
