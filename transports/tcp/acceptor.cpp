// Acceptor: accepts and makes connections, and hands over those whose handshake is complete.
//
// Asio waits for callers, connects, and reads the handshakes, but its reactor cannot be polled together with other
// descriptors. So every descriptor given to Asio is also in an edge-triggered epoll of this class, which only signals
// "poll Asio now"; a timer in it ticks while a connection is half open.
#include "transports/tcp/acceptor.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "transports/core/half_open.hpp"
#include "transports/core/host.hpp"
#include "transports/core/open_files.hpp"
#include "transports/core/throttle.hpp"
#include "transports/tcp/connection.hpp"
#include "transports/tcp/session.hpp"
#include "transports/tcp/sockets.hpp"
#include "tutti/log.hpp"

namespace tutti::tcp {
namespace {

namespace asio = boost::asio;

constexpr Seconds next_candidate{0.25};  // as RFC 8305 suggests
constexpr int tick_ms = 20;
constexpr Seconds handshake_time{5};  // from accept() to the caller's proof
constexpr int accepted_at_once = 4;   // then the handshakes in progress get their turn
constexpr int handlers_at_once = 64;  // Asio's, in one attend(), so that many strangers cannot keep it busy

}  // namespace

class Acceptor::Impl : public SessionOwner {
 public:
  Impl(Membership membership, AcceptorSettings settings, TransportListener& listener);
  ~Impl() override;

  const Endpoint& endpoint() const noexcept { return endpoint_; }
  void meet(Directory peers);
  int connections(int peer);
  int most_connections() const { return peers_->most_connections(); }
  std::string host_of(int peer);
  std::size_t files_to_come() const {  // if this rank connects to every other one
    const int each = settings_.one_host ? 1 : most_connections_between(settings_.connections);
    return std::max(static_cast<std::size_t>(self_.size * each), sessions_.size()) - sessions_.size();
  }
  void open(int stream);
  int fd() const noexcept { return epoll_.fd(); }
  int news() const noexcept { return news_.fd(); }
  void attend();
  std::vector<Opened> take();

  const Membership& self() const noexcept override { return self_; }
  bool met() const noexcept override { return peers_.has_value(); }
  bool settled(int stream) const noexcept override;
  void choosing(Session& session) override { connection(session.stream()).choosing = &session; }
  void opened(Session& session) override;
  void failed(Session& session, const std::string& why, bool suspect) override;

 private:
  struct Listener {
    Descriptor socket;
    asio::ip::tcp::acceptor acceptor;
    bool again = false;  // there was no descriptor for the last caller
  };

  void listen();
  void await_callers(Listener& listener);
  void let_in(Listener& listener);
  void cannot_accept(Listener& listener, int error);
  std::shared_ptr<Session> caller(HalfOpen::Number number) const;
  void close_caller(HalfOpen::Number number);
  void give_time(Session& session);
  void mirror(int fd);
  Connection& connection(int stream);
  void call_next(int stream, Connection& one);
  void tick(Deadline now);
  void advance(int stream, Connection& one, Deadline now);
  void give_up(int stream, Connection& one);
  void warn(const std::string& text);
  void set_ticking();

  std::mutex mutex_;
  Membership self_;
  const AcceptorSettings settings_;
  TransportListener& listener_;
  std::vector<Interface> own_;
  Endpoint endpoint_;
  Descriptor epoll_ = make_epoll(), timer_ = make_timer(), news_ = make_event();
  asio::io_context context_{1};
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::shared_ptr<Session>> sessions_;
  HalfOpen half_open_;
  HalfOpen::Number callers_ = 0;
  mutable std::optional<PeerBook> peers_;  // set by meet()
  std::map<int, Connection> connections_;  // by stream; those that open() or a caller asked for
  std::vector<Opened> opened_;
  Throttle throttle_;
  bool ticking_ = false;
};

Acceptor::Impl::Impl(Membership membership, AcceptorSettings settings, TransportListener& listener)
    : self_(std::move(membership)),
      settings_(std::move(settings)),
      listener_(listener),
      half_open_(static_cast<std::size_t>(self_.size), handshake_time) {
  self_.instance = random_number() >> 32;  // 32 bits: all ranks store its digits
  endpoint_.rank = self_.rank;
  endpoint_.instance = self_.instance;
  endpoint_.host = host_name();
  endpoint_.identity = host_identity(settings_.host_id);
  endpoint_.network = host_identity("");
  watch_descriptor(epoll_.fd(), timer_.fd(), EPOLLIN, 1);
  listen();
}

Acceptor::Impl::~Impl() {
  for (const auto& session : sessions_) session->close();
  for (const auto& listener : listeners_) {
    boost::system::error_code ignored;
    listener->acceptor.release(ignored);
  }
  context_.restart();
  context_.poll();  // destroys the cancelled handlers
}

void Acceptor::Impl::mirror(int fd) { watch_descriptor(epoll_.fd(), fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 0); }

// If all interfaces are allowed, there is one wildcard listener per address family; otherwise one listener per address.
// A job on one host listens on loopback only, so that other hosts cannot connect at all.
void Acceptor::Impl::listen() {
  own_ = allowed_interfaces(local_interfaces(), settings_.iface);
  const auto loopback = [](const Interface& one) { return one.address.loopback(); };
  const bool at_home = settings_.one_host && settings_.iface.empty() && std::ranges::any_of(own_, loopback);
  if (at_home) std::erase_if(own_, std::not_fn(loopback));
  std::map<int, int> wildcard_port;
  const auto add = [&](const Address& address) {
    int port = 0;
    Descriptor socket = listen_at(address, settings_.congestion, port);
    if (!socket) return 0;
    mirror(socket.fd());
    const auto protocol = address.family == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6();
    asio::ip::tcp::acceptor acceptor(context_, protocol, socket.fd());
    listeners_.push_back(std::make_unique<Listener>(Listener{std::move(socket), std::move(acceptor)}));
    await_callers(*listeners_.back());
    return port;
  };
  for (const Interface& interface : own_) {
    const Address any{interface.address.family, {}, 0};
    int port = 0;
    if (settings_.iface.empty() && !at_home) {
      if (!wildcard_port.contains(any.family)) wildcard_port[any.family] = add(any);
      port = wildcard_port[any.family];
    } else {
      port = add(interface.address);
    }
    if (port != 0) endpoint_.candidates.push_back({interface.address, port, interface.name});
  }
  if (listeners_.empty()) throw_system("address to listen at");
}

void Acceptor::Impl::await_callers(Listener& listener) {
  listener.acceptor.async_wait(asio::socket_base::wait_read, [this, &listener](const boost::system::error_code& error) {
    if (error) return;
    let_in(listener);
    if (!listener.again) await_callers(listener);
  });
}

void Acceptor::Impl::let_in(Listener& listener) {
  for (int i = 0; i < accepted_at_once; ++i) {
    Descriptor socket = accept_from(listener.socket.fd());
    if (!socket) return cannot_accept(listener, errno);
    mirror(socket.fd());
    sessions_.push_back(std::make_shared<Session>(context_, *this, std::move(socket), Session::Way::inbound, -1));
    if (const auto oldest = half_open_.add(++callers_)) close_caller(*oldest);
    sessions_.back()->accepted(callers_);
  }
}

void Acceptor::Impl::cannot_accept(Listener& listener, int error) {
  listener.again = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!listener.again) return;
  warn(std::string("cannot accept a connection: ") + std::strerror(error) + ". " +
       about_open_files(error, files_to_come()));
  if (const auto oldest = half_open_.take_oldest()) close_caller(*oldest);
}

std::shared_ptr<Session> Acceptor::Impl::caller(HalfOpen::Number number) const {
  const auto found = std::ranges::find(sessions_, number, [](const auto& session) { return session->number(); });
  return found == sessions_.end() ? nullptr : *found;
}

// Closes a caller that has not proved that it knows the secret, so that strangers cannot keep ranks out.
void Acceptor::Impl::close_caller(HalfOpen::Number number) {
  const auto session = caller(number);
  if (!session || session->closed()) return;
  session->close();
  warn("too many connections at once that prove nothing; closed the one from " + session->where());
}

void Acceptor::Impl::meet(Directory peers) {
  const std::lock_guard lock(mutex_);
  peers_.emplace(std::move(peers), endpoint_, own_, settings_.connections);
  const auto sessions = sessions_;  // an answer may close others
  for (const auto& session : sessions) {
    if (session->waits()) give_time(*session);
    session->answer();
  }
}

// Restarts the time limit of a caller that had to wait for this rank's answer.
void Acceptor::Impl::give_time(Session& session) {
  half_open_.remove(session.number());
  session.renumber(++callers_);
  half_open_.add(session.number());
}

int Acceptor::Impl::connections(int rank) {
  const std::lock_guard lock(mutex_);
  return (*peers_)[rank].connections;
}

std::string Acceptor::Impl::host_of(int rank) {
  const std::lock_guard lock(mutex_);
  return peers_ && peers_->knows(rank) ? (*peers_)[rank].endpoint.host : std::string();
}

Connection& Acceptor::Impl::connection(int stream) {
  const Peer& peer = (*peers_)[self_.peer_of(stream)];
  connections_[stream].peer = &peer;
  return connections_[stream];
}

void Acceptor::Impl::open(int stream) {
  const std::lock_guard lock(mutex_);
  Connection& one = connection(stream);
  if (one.wanted || one.open) return;
  one.wanted = true;
  one.since = one.next_at = Clock::now();
  advance(stream, one, one.since);
  set_ticking();
}

bool Acceptor::Impl::settled(int stream) const noexcept {
  if (!peers_ || !peers_->allows(self_.peer_of(stream), self_.connection_of(stream))) return true;
  const auto found = connections_.find(stream);
  if (found == connections_.end()) return false;
  const Connection& one = found->second;
  return one.open || one.lost || one.choosing != nullptr;
}

void Acceptor::Impl::opened(Session& session) {
  const int stream = session.stream();
  Connection& one = connection(stream);
  half_open_.remove(session.number());
  one.open = true;
  one.choosing = nullptr;
  Opened done{stream, session.detach(), {}};
  tune(done.socket.fd());
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, done.socket.fd(), nullptr);
  done.route = route_text(done.socket.fd(), own_);
  log(LogLevel::info,
      "rank " + std::to_string(self_.rank) + " reaches rank " + std::to_string(self_.peer_of(stream)) + " at " +
          done.route,
      self_.rank);
  opened_.push_back(std::move(done));
  raise_event(news_.fd());
  for (const auto& other : sessions_) {
    if (other->stream() != stream || other->closed()) continue;
    other->close();
    half_open_.remove(other->number());
  }
}

void Acceptor::Impl::failed(Session& session, const std::string& why, bool suspect) {
  half_open_.remove(session.number());
  if (suspect) {
    warn("refused a connection " + std::string(session.inbound() ? "from " : "to ") + session.where() +
         ": the other side " + why);
  } else {
    log(LogLevel::debug, "connection with " + session.where() + " came to nothing: " + why, self_.rank);
  }
  const auto found = connections_.find(session.stream());
  if (found == connections_.end()) return;
  Connection& one = found->second;
  if (one.choosing == &session) one.choosing = nullptr;
  if (!session.inbound()) one.failed(session, why);
}

void Acceptor::Impl::call_next(int stream, Connection& one) {
  const Candidate& candidate = one.peer->candidates[one.next++];
  try {
    Descriptor socket = make_socket(candidate.address.family, settings_.congestion);
    if (!socket) {
      one.no_files = about_open_files(errno, files_to_come());
      throw_system("socket");
    }
    mirror(socket.fd());
    sessions_.push_back(std::make_shared<Session>(context_, *this, std::move(socket), Session::Way::outbound, stream));
    sessions_.back()->connect(candidate, one.peer->endpoint.instance);
  } catch (const std::exception& error) {
    one.failures[endpoint_text(candidate.address, candidate.port)] = error.what();
  }
}

/// Starts the next attempts for a connection that is not made yet.
void Acceptor::Impl::advance(int stream, Connection& one, Deadline now) {
  if (!one.calling() || now < one.next_at) return;
  const std::vector<Candidate>& candidates = one.peer->candidates;
  if (one.next < candidates.size()) {
    call_next(stream, one);
    one.next_at = now + std::chrono::duration_cast<Clock::duration>(next_candidate);
    return;
  }
  if (std::ranges::any_of(sessions_, [&](const auto& s) { return s->stream() == stream && !s->closed(); })) return;
  if (now - one.since > one.patience() || candidates.empty()) return give_up(stream, one);
  one.next = 0;
  one.next_at = now;
  advance(stream, one, now);
}

// The peer counts as gone only if its first connection fails. Without a further one there is just less bandwidth.
void Acceptor::Impl::give_up(int stream, Connection& one) {
  one.lost = true;
  const int peer = self_.peer_of(stream);
  if (self_.connection_of(stream) > 0)
    return log(LogLevel::info, one.failures_text(peer) + "; so it has fewer connections with this one", self_.rank);
  listener_.failed(one.cause_of_loss(peer, self_.rank));
}

void Acceptor::Impl::tick(Deadline now) {
  const auto sessions = sessions_;  // an expiring session may close others
  for (const auto& session : sessions) {
    if (!session->closed() && now >= session->deadline()) session->expire();
  }
  for (const HalfOpen::Number number : half_open_.take_late(now)) {
    const auto session = caller(number);
    if (!session || session->closed()) continue;
    session->waits() ? give_time(*session) : session->expire();
  }
  for (const auto& listener : listeners_)
    if (std::exchange(listener->again, false)) await_callers(*listener);
  for (auto& [stream, one] : connections_) advance(stream, one, now);
}

void Acceptor::Impl::attend() {
  const std::lock_guard lock(mutex_);
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<std::size_t>(i)].data.u64 == 1) clear_event(timer_.fd());
  }
  context_.restart();
  int handlers = 0;
  while (handlers < handlers_at_once && context_.poll_one() > 0) ++handlers;
  tick(Clock::now());
  std::erase_if(sessions_, [](const auto& session) { return session->closed(); });
  set_ticking();
  if (handlers == handlers_at_once) set_timer(timer_.fd(), 1, ticking_ ? tick_ms : 0);
}

void Acceptor::Impl::set_ticking() {
  const bool busy = !sessions_.empty() || std::ranges::any_of(listeners_, [](const auto& one) { return one->again; }) ||
                    std::ranges::any_of(connections_, [](const auto& entry) { return entry.second.calling(); });
  if (busy == ticking_) return;
  ticking_ = busy;
  set_timer(timer_.fd(), busy ? tick_ms : 0, busy ? tick_ms : 0);
}

std::vector<Opened> Acceptor::Impl::take() {
  const std::lock_guard lock(mutex_);
  clear_event(news_.fd());
  return std::exchange(opened_, {});
}

void Acceptor::Impl::warn(const std::string& text) { throttle_.log(LogLevel::warn, "tcp " + text, self_.rank); }

Acceptor::Acceptor(Membership membership, AcceptorSettings settings, TransportListener& listener)
    : impl_(std::make_unique<Impl>(std::move(membership), std::move(settings), listener)) {}
Acceptor::~Acceptor() = default;
const Endpoint& Acceptor::endpoint() const noexcept { return impl_->endpoint(); }
void Acceptor::meet(Directory peers) { impl_->meet(std::move(peers)); }
int Acceptor::connections(int peer) { return impl_->connections(peer); }
int Acceptor::most_connections() const { return impl_->most_connections(); }
std::string Acceptor::host_of(int peer) { return impl_->host_of(peer); }
void Acceptor::open(int stream) { impl_->open(stream); }
int Acceptor::fd() const noexcept { return impl_->fd(); }
int Acceptor::news() const noexcept { return impl_->news(); }
void Acceptor::attend() { impl_->attend(); }
std::vector<Opened> Acceptor::take() { return impl_->take(); }

}  // namespace tutti::tcp
