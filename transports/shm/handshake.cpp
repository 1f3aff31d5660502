// The handshake over SOCK_SEQPACKET, which preserves message boundaries.
#include "transports/shm/handshake.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

#include "transports/core/sha256.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {

enum class MessageType : std::uint16_t { hello = 1, challenge, proof, welcome };

/// The one format of all messages; fields that a type does not use are zero.
struct Message {
  std::uint32_t magic = 0x75747475;
  std::uint16_t version = 3;
  MessageType type = MessageType::hello;
  std::int32_t from = -1, to = -1;
  std::int64_t pid = 0;
  Mark mark;
  std::array<std::uint8_t, 8> carries{};  // which descriptors of a Handout are attached, in its order
  std::array<std::uint8_t, 16> nonce{};
  Digest proof{};
};
static_assert(std::is_trivially_copyable_v<Message>);

namespace {

using Nonce = std::array<std::uint8_t, 16>;
constexpr std::size_t most_descriptors = 4;

std::array<int, most_descriptors> in_order(const Handout& handout) noexcept {
  return {handout.doorbell, handout.process, handout.segment, handout.arena};
}

Nonce fresh_nonce() {
  Nonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw Error(Code::resource, std::string("the kernel gives no random bytes (getrandom): ") + std::strerror(errno));
  return nonce;
}

Digest prove(const Identity& self, MessageType type, int caller, int listener, const Nonce& of_caller,
             const Nonce& of_listener) {
  std::string text = "tutti shm " + std::to_string(static_cast<int>(type)) + " " + std::to_string(caller) + " " +
                     std::to_string(listener) + " ";
  text.append(of_caller.begin(), of_caller.end()).append(of_listener.begin(), of_listener.end()).append(self.job);
  return hmac_sha256(std::as_bytes(std::span(self.secret)), std::as_bytes(std::span(text)));
}

sockaddr_un abstract(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);  // a leading zero byte makes the name abstract
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

std::optional<ucred> peer_of(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return credentials;
}

std::string peer_identity(int socket) {
  const auto peer = peer_of(socket);
  if (!peer) return "unknown user";
  return "user id " + std::to_string(peer->uid) + ", process " + std::to_string(peer->pid);
}

// Returns false with errno set if the message could not be sent.
bool send_message(int socket, Message message, const Handout& handout = {}) {
  iovec part = {&message, sizeof message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  std::vector<int> fds;
  for (std::size_t i = 0; i < most_descriptors; ++i) {
    const int fd = in_order(handout)[i];
    message.carries[i] = fd >= 0;
    if (fd >= 0) fds.push_back(fd);
  }
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof message);
}

struct Received {
  enum class Kind { nothing_yet, message, ended, garbage } kind = Kind::nothing_yet;
  Message message;
  std::vector<Descriptor> descriptors;
};

// Takes ownership of all attached descriptors before any other check, so that none leaks.
void take_descriptors(msghdr& header, std::vector<Descriptor>& into) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      into.emplace_back(fd);
    }
  }
}

Received receive_message(int socket) {
  Received received;
  iovec part = {&received.message, sizeof received.message};
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  using Kind = Received::Kind;
  if (n < 0) {
    received.kind = errno == EAGAIN || errno == EINTR ? Kind::nothing_yet : Kind::ended;
    return received;
  }
  take_descriptors(header, received.descriptors);
  const Message& message = received.message;
  const bool sound = n == static_cast<ssize_t>(sizeof message) && message.magic == Message().magic &&
                     message.version == Message().version && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  received.kind = n == 0 ? Kind::ended : sound ? Kind::message : Kind::garbage;
  return received;
}

Link make_link(int rank, Descriptor socket, Received& received) {
  Link link;
  link.rank = rank;
  link.pid = received.message.pid;
  link.mark = received.message.mark;
  if (const auto peer = peer_of(socket.fd())) link.process_here = peer->pid;
  link.socket = std::move(socket);
  const std::array<Descriptor*, most_descriptors> places = {&link.doorbell, &link.process, &link.segment, &link.arena};
  std::size_t next = 0;
  for (std::size_t i = 0; i < most_descriptors; ++i)
    if (received.message.carries[i] != 0 && next < received.descriptors.size())
      *places[i] = std::move(received.descriptors[next++]);
  return link;
}

[[noreturn]] void unreachable(int rank, const std::string& why) {
  throw Error(Code::peer_lost, "rank " + std::to_string(rank) + " cannot be met over unix sockets: " + why, rank);
}

Descriptor connect_to(int rank, const std::string& name, Deadline until) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw Error(Code::resource, std::string("no unix socket can be made: ") + std::strerror(errno));
  socklen_t length = 0;
  const sockaddr_un address = abstract(name, length);
  while (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    // EAGAIN: the listener's backlog is full at the moment.
    if (errno != EAGAIN && errno != EINTR)
      unreachable(rank, std::string(std::strerror(errno)) + "; it ended, or lives in another network namespace");
    if (Clock::now() > until) throw Error(Code::timeout, "rank " + std::to_string(rank) + " does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return socket;
}

Received await_message(int rank, int socket, MessageType type, Deadline until) {
  for (;;) {
    Received received = receive_message(socket);
    using Kind = Received::Kind;
    if (received.kind == Kind::ended)
      unreachable(rank, "it ended or refused us; is TUTTI_SECRET the same on all ranks?");
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

}  // namespace

Link call(const Identity& self, int to, const std::string& address, Deadline until) {
  Descriptor socket = connect_to(to, address, until);
  Message hello;
  hello.from = self.rank;
  hello.to = to;
  hello.nonce = fresh_nonce();
  if (!send_message(socket.fd(), hello)) unreachable(to, std::strerror(errno));

  const Received challenge = await_message(to, socket.fd(), MessageType::challenge, until);
  const Nonce& theirs = challenge.message.nonce;
  if (!equal_constant_time(challenge.message.proof,
                           prove(self, MessageType::challenge, self.rank, to, hello.nonce, theirs)))
    unreachable(to, "it does not know this job's secret; is TUTTI_SECRET the same on all ranks?");

  Message proof = hello;
  proof.type = MessageType::proof;
  proof.pid = ::getpid();
  proof.mark = self.mark;
  proof.proof = prove(self, MessageType::proof, self.rank, to, hello.nonce, theirs);
  Handout handout = self.handout;
  handout.segment = -1;
  if (!send_message(socket.fd(), proof, handout)) unreachable(to, std::strerror(errno));

  Received welcome = await_message(to, socket.fd(), MessageType::welcome, until);
  Link link = make_link(to, std::move(socket), welcome);
  if (!link.doorbell) unreachable(to, "its descriptors did not come along; is SCM_RIGHTS forbidden here?");
  return link;
}

Listener::Listener(const Identity& self)
    : self_(self), socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  address_ = "tutti-";
  for (const std::uint8_t byte : fresh_nonce()) {
    address_ += "0123456789abcdef"[byte >> 4];
    address_ += "0123456789abcdef"[byte & 15];
  }
  socklen_t length = 0;
  const sockaddr_un address = abstract(address_, length);
  if (!socket_ || ::bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(socket_.fd(), 128) != 0)
    throw Error(Code::resource, std::string("no unix socket can be opened: ") + std::strerror(errno));
}

bool Listener::serve(const std::vector<int>& awaited, Seconds slice, std::vector<Link>& arrived) {
  std::vector<pollfd> ready = {{socket_.fd(), POLLIN, 0}};
  for (const Caller& caller : callers_) ready.push_back({caller.socket.fd(), POLLIN, 0});
  const int count = ::poll(ready.data(), ready.size(), static_cast<int>(slice.count() * 1000));
  if (count <= 0) return false;
  for (Caller& caller : callers_) hear(caller, awaited, arrived);
  callers_.remove_if([](const Caller& caller) { return caller.finished; });
  accept_callers();
  return true;
}

void Listener::accept_callers() {
  for (;;) {
    Descriptor socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    callers_.emplace_back().socket = std::move(socket);
  }
}

void Listener::refuse(Caller& caller, const std::string& why) const {
  log(LogLevel::warn,
      "refused a caller on the shared-memory socket (" + peer_identity(caller.socket.fd()) + "): " + why, self_.rank);
  caller.finished = true;
}

void Listener::hear(Caller& caller, const std::vector<int>& awaited, std::vector<Link>& arrived) {
  Received received = receive_message(caller.socket.fd());
  using Kind = Received::Kind;
  if (received.kind == Kind::nothing_yet) return;
  if (received.kind == Kind::ended) {
    caller.finished = true;
    return;
  }
  const Message& message = received.message;
  if (received.kind == Kind::garbage) return refuse(caller, "it does not speak this protocol");
  if (caller.rank < 0) return challenge(caller, message, awaited);
  const Digest expected =
      prove(self_, MessageType::proof, caller.rank, self_.rank, caller.caller_nonce, caller.own_nonce);
  if (message.type != MessageType::proof || !equal_constant_time(message.proof, expected))
    return refuse(caller, "it does not know this job's secret");

  Message welcome;
  welcome.type = MessageType::welcome;
  welcome.from = self_.rank;
  welcome.to = caller.rank;
  welcome.pid = ::getpid();
  welcome.mark = self_.mark;
  Link link = make_link(caller.rank, std::move(caller.socket), received);
  caller.finished = true;
  const bool twice = std::any_of(arrived.begin(), arrived.end(), [&](const Link& l) { return l.rank == link.rank; });
  if (link.doorbell && !twice && send_message(link.socket.fd(), welcome, self_.handout))
    arrived.push_back(std::move(link));
}

void Listener::challenge(Caller& caller, const Message& hello, const std::vector<int>& awaited) {
  const bool known = std::find(awaited.begin(), awaited.end(), hello.from) != awaited.end();
  if (hello.type != MessageType::hello || hello.to != self_.rank || !known)
    return refuse(caller, "it is not a rank that was awaited");
  caller.rank = hello.from;
  caller.caller_nonce = hello.nonce;
  caller.own_nonce = fresh_nonce();
  Message answer;
  answer.type = MessageType::challenge;
  answer.from = self_.rank;
  answer.to = caller.rank;
  answer.nonce = caller.own_nonce;
  answer.proof = prove(self_, MessageType::challenge, caller.rank, self_.rank, caller.caller_nonce, caller.own_nonce);
  if (!send_message(caller.socket.fd(), answer)) caller.finished = true;
}

}  // namespace tutti::shm
