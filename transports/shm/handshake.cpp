// Both sides of the handshake, and the rosters.
#include "transports/shm/handshake.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include "transports/core/chaos.hpp"
#include "transports/core/open_files.hpp"
#include "transports/core/sha256.hpp"
#include "transports/shm/messages.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {
namespace {

using Nonce = std::array<std::uint8_t, 16>;

constexpr Seconds handshake_time{5};  // from accept() to the caller's proof
constexpr int accepted_at_once = 4;   // connections per serve(), so that accepted callers are served in between

Digest prove(const Identity& self, MessageType type, int caller, int listener, const Nonce& of_caller,
             const Nonce& of_listener) {
  std::string text = "tutti shm " + std::to_string(static_cast<int>(type)) + " " + std::to_string(caller) + " " +
                     std::to_string(listener) + " ";
  text.append(of_caller.begin(), of_caller.end()).append(of_listener.begin(), of_listener.end()).append(self.job);
  return hmac_sha256(std::as_bytes(std::span(self.secret)), std::as_bytes(std::span(text)));
}

std::string peer_identity(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return "unknown user";
  return "user id " + std::to_string(peer.uid) + ", process " + std::to_string(peer.pid);
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

// Moves the received descriptors to `places`, in the order of Carried.
void unpack(Received& received, std::array<Descriptor*, 3> places) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (received.message.carries[i] != 0 && next < received.descriptors.size() && places[i] != nullptr)
      *places[i] = std::move(received.descriptors[next++]);
}

[[noreturn]] void unreachable(int rank, const std::string& why) {
  throw Error(Code::peer_lost, "rank " + std::to_string(rank) + " cannot be met over unix sockets: " + why, rank);
}

/// The leader has closed the connection before it had read all messages of this rank.
struct Unheard final : Error {
  explicit Unheard(int rank)
      : Error(Code::peer_lost, "rank " + std::to_string(rank) + " has closed its unix socket before it heard us",
              rank) {}
};

[[noreturn]] void too_many_files(int self) {
  throw Error(Code::resource,
              "rank " + std::to_string(self) + " may have " + std::to_string(limit_of_open_files()) +
                  " files open, and the ranks of its host need more while they meet, two for each other rank: raise "
                  "the limit (ulimit -Hn) where the job is started",
              self);
}

Descriptor connect_to(int rank, const std::string& name, Deadline until) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw Error(Code::resource, no_socket_text(errno));
  const UnixAddress address(name);
  while (::connect(socket.fd(), address.get(), address.length) != 0) {
    // EAGAIN: the listener's backlog is full at the moment.
    if (errno != EAGAIN && errno != EINTR)
      unreachable(rank, std::string(std::strerror(errno)) + "; it ended, or lives in another network namespace");
    if (Clock::now() > until) throw Error(Code::timeout, "rank " + std::to_string(rank) + " does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return socket;
}

Received await_message(const Identity& self, int rank, int socket, MessageType type, Deadline until) {
  for (;;) {
    Received received = receive_message(socket);
    using Kind = Received::Kind;
    if (received.kind == Kind::unheard) throw Unheard(rank);
    if (received.kind == Kind::ended)
      unreachable(rank, "it ended or refused us; is TUTTI_SECRET the same on all ranks?");
    if (received.kind == Kind::truncated) too_many_files(self.rank());
    if (received.kind == Kind::garbage || (received.kind == Kind::message && received.message.type != type))
      unreachable(rank, "it speaks another version; do all ranks run the same tutti?");
    if (received.kind == Kind::message) return received;
    if (Clock::now() > until)
      throw Error(Code::timeout,
                  "rank " + std::to_string(rank) + " does not answer on its unix socket: is it stopped?");
    pollfd ready = {socket, POLLIN, 0};
    ::poll(&ready, 1, 100);
  }
}

Called call_once(const Identity& self, int to, const std::string& address, Deadline until) {
  Called made;
  made.leader.socket = connect_to(to, address, until);
  const int socket = made.leader.socket.fd();
  Message hello;
  hello.from = self.rank();
  hello.to = to;
  hello.nonce = fresh_name();
  if (!send_message(socket, hello)) throw Unheard(to);

  const Received challenge = await_message(self, to, socket, MessageType::challenge, until);
  const Nonce& theirs = challenge.message.nonce;
  if (!equal_constant_time(challenge.message.proof,
                           prove(self, MessageType::challenge, self.rank(), to, hello.nonce, theirs)))
    unreachable(to, "it does not know this job's secret; is TUTTI_SECRET the same on all ranks?");

  Message proof = hello;
  proof.type = MessageType::proof;
  proof.card = self.card;
  proof.proof = prove(self, MessageType::proof, self.rank(), to, hello.nonce, theirs);
  if (!send_message(socket, proof, {self.doorbell, self.death, -1})) throw Unheard(to);

  Received welcome = await_message(self, to, socket, MessageType::welcome, until);
  unpack(welcome, {&made.leader.doorbell, &made.leader.death, &made.segment});
  made.leader.card = welcome.message.card;
  if (!made.leader.doorbell) unreachable(to, "its descriptors did not come along; is SCM_RIGHTS forbidden here?");
  return made;
}

}  // namespace

Called call(const Identity& self, int to, const std::string& address, Deadline until) {
  for (;;) {
    try {
      return call_once(self, to, address, until);
    } catch (const Unheard&) {
      if (Clock::now() > until)
        throw Error(Code::timeout, "rank " + std::to_string(to) + " has too many callers on its unix socket");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void send_rosters(const Identity& self, std::vector<Link>& links) {
  std::vector<Card> cards = {self.card};
  std::vector<int> descriptors = {self.doorbell, self.death};
  for (const Link& link : links) {
    cards.push_back(link.card);
    for (const int fd : {link.doorbell.fd(), link.death.fd()}) descriptors.push_back(fd);
  }
  Message roster;
  roster.type = MessageType::roster;
  roster.from = self.rank();
  for (std::size_t at = 0; at < cards.size(); at += cards_at_once) {
    const std::size_t n = std::min(cards_at_once, cards.size() - at);
    roster.left = static_cast<std::uint32_t>(cards.size() - at - n);
    for (Link& link : links) {
      roster.to = link.card.rank;
      // Sending fails if that rank has died. All other ranks notice its death by themselves.
      if (link.socket && !send_cards(link.socket.fd(), roster, std::span(cards).subspan(at, n),
                                     std::span(descriptors).subspan(2 * at, 2 * n)))
        link.socket.reset();
    }
  }
}

std::vector<Link> receive_roster(const Identity& self, const Link& leader, Deadline until) {
  std::vector<Link> links;
  for (bool more = true; more;) {
    Received part = await_message(self, leader.card.rank, leader.socket.fd(), MessageType::roster, until);
    if (part.descriptors.size() != 2 * part.cards.size()) too_many_files(self.rank());
    for (std::size_t i = 0; i < part.cards.size(); ++i) {
      if (part.cards[i].rank == self.rank()) continue;
      links.push_back({part.cards[i], std::move(part.descriptors[2 * i]), std::move(part.descriptors[2 * i + 1]), {}});
    }
    more = part.message.left > 0;
  }
  return links;
}

namespace {
std::string new_address() {
  const AddressText text = address_of(fresh_name());
  return {text.begin(), text.end()};
}
}  // namespace

Listener::Listener(const Identity& self, std::size_t ranks, bool any_user)
    : self_(self),
      address_(new_address()),
      socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      any_user_(any_user),
      half_open_(ranks, handshake_time) {
  const UnixAddress address(address_);
  if (!socket_ || ::bind(socket_.fd(), address.get(), address.length) != 0 || ::listen(socket_.fd(), 1024) != 0)
    throw Error(Code::resource, no_socket_text(errno));
}

bool Listener::serve(const std::vector<int>& awaited, Seconds slice, std::vector<Link>& arrived) {
  std::vector<pollfd> ready = {{socket_.fd(), POLLIN, 0}};
  for (const Caller& caller : callers_) ready.push_back({caller.socket.fd(), POLLIN, 0});
  const int count = system_faults::interruptible(
      [&] { return ::poll(ready.data(), ready.size(), static_cast<int>(slice.count() * 1000)); });
  if (count <= 0) return false;
  auto events = ready.begin();
  for (Caller& caller : callers_)
    if ((++events)->revents != 0) hear(caller, awaited, arrived);
  for (const HalfOpen::Number number : half_open_.take_late(Clock::now())) refuse(number, "it says nothing");
  accept_callers(awaited, arrived);
  callers_.remove_if([](const Caller& caller) { return caller.finished; });
  return true;
}

void Listener::accept_callers(const std::vector<int>& awaited, std::vector<Link>& arrived) {
  for (int i = 0; i < accepted_at_once; ++i) {
    Descriptor socket(system_faults::interruptible(
        [&] { return ::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
    if (!socket && (errno == EMFILE || errno == ENFILE)) {
      const auto oldest = half_open_.take_oldest();
      if (!oldest) too_many_files(self_.rank());
      refuse(*oldest, "its descriptor is needed");
      continue;
    }
    if (!socket) return;
    Caller& caller = callers_.emplace_back();
    caller.socket = std::move(socket);
    caller.number = ++calls_;
    if (!any_user_ && !same_user(caller.socket.fd())) {
      refuse(caller, "it belongs to another user; if it does not, set TUTTI_SHM_USERS=any");
      continue;
    }
    if (const auto oldest = half_open_.add(caller.number))
      refuse(*oldest, "too many say nothing, and it is the oldest");
    hear(caller, awaited, arrived);  // usually the caller's hello has arrived already
  }
}

void Listener::refuse(Caller& caller, const std::string& why) {
  throttle_.log(LogLevel::warn,
                "refused a caller on the shared-memory socket (" + peer_identity(caller.socket.fd()) + "): " + why,
                self_.rank());
  finish(caller);
}

void Listener::refuse(HalfOpen::Number number, const std::string& why) {
  const auto found = std::ranges::find(callers_, number, &Caller::number);
  if (found != callers_.end() && !found->finished) refuse(*found, why);
}

/// Closes the caller's descriptor at once, because other callers may need one.
void Listener::finish(Caller& caller) {
  half_open_.remove(caller.number);
  caller.finished = true;
  caller.socket.reset();
}

void Listener::hear(Caller& caller, const std::vector<int>& awaited, std::vector<Link>& arrived) {
  if (caller.finished) return;
  const std::size_t carried = caller.rank < 0 ? 0 : nothing_carried.size();  // a hello has no descriptors
  Received received = receive_message(caller.socket.fd(), carried);
  using Kind = Received::Kind;
  if (received.kind == Kind::nothing_yet) return;
  if (received.kind == Kind::ended || received.kind == Kind::unheard) return finish(caller);
  const Message& message = received.message;
  if (received.kind == Kind::garbage || (received.kind == Kind::truncated && caller.rank < 0))
    return refuse(caller, "it does not speak this protocol");
  if (caller.rank < 0) return challenge(caller, message, awaited);
  const Digest expected =
      prove(self_, MessageType::proof, caller.rank, self_.rank(), caller.caller_nonce, caller.own_nonce);
  if (message.type != MessageType::proof || !equal_constant_time(message.proof, expected))
    return refuse(caller, "it does not know this job's secret");
  if (received.kind == Kind::truncated) too_many_files(self_.rank());

  Message welcome;
  welcome.type = MessageType::welcome;
  welcome.from = self_.rank();
  welcome.to = caller.rank;
  welcome.card = self_.card;
  Link link;
  link.card = received.message.card;
  link.card.rank = caller.rank;
  unpack(received, {&link.doorbell, &link.death, nullptr});
  link.socket = std::move(caller.socket);
  finish(caller);
  const bool twice = std::ranges::any_of(arrived, [&](const Link& one) { return one.card.rank == link.card.rank; });
  const Carried mine = {self_.doorbell, self_.death, self_.segment};
  if (link.doorbell && link.death && !twice && send_message(link.socket.fd(), welcome, mine))
    arrived.push_back(std::move(link));
}

void Listener::challenge(Caller& caller, const Message& hello, const std::vector<int>& awaited) {
  const bool known = std::find(awaited.begin(), awaited.end(), hello.from) != awaited.end();
  if (hello.type != MessageType::hello || hello.to != self_.rank() || !known)
    return refuse(caller, "it is not a rank that was awaited");
  caller.rank = hello.from;
  caller.caller_nonce = hello.nonce;
  caller.own_nonce = fresh_name();
  Message answer;
  answer.type = MessageType::challenge;
  answer.from = self_.rank();
  answer.to = caller.rank;
  answer.nonce = caller.own_nonce;
  answer.proof = prove(self_, MessageType::challenge, caller.rank, self_.rank(), caller.caller_nonce, caller.own_nonce);
  if (!send_message(caller.socket.fd(), answer)) finish(caller);
}

}  // namespace tutti::shm
