// Session: one connection during its handshake (see handshake.hpp).
#include "transports/tcp/session.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/tcp/sockets.hpp"

#include <boost/asio/read.hpp>

namespace tutti::tcp {
namespace {

namespace asio = boost::asio;
using Endpoint = asio::ip::tcp::endpoint;

// A live listener may be slow to answer: its process may be stopped, or its cores busy.
constexpr Seconds connect_time{15}, answer_time{60};

asio::ip::tcp protocol_of(int fd) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length);
  return local.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

Endpoint endpoint_of(const Candidate& candidate) {
  sockaddr_storage raw;
  const socklen_t length = candidate.address.socket_address(candidate.port, raw);
  Endpoint endpoint;
  std::memcpy(endpoint.data(), &raw, length);
  endpoint.resize(length);
  return endpoint;
}

}  // namespace

Session::Session(asio::io_context& context, SessionOwner& owner, Descriptor socket, Way way, int stream)
    : owner_(owner),
      socket_(std::move(socket)),
      asio_(context, protocol_of(socket_.fd()), socket_.fd()),
      way_(way),
      stream_(stream) {}

void Session::read(Bytes into, Next next) {
  asio::async_read(asio_, asio::buffer(into.data(), into.size()),
                   [self = shared_from_this(), next](const boost::system::error_code& error, std::size_t) {
                     if (self->closed_) return;
                     if (!error) return (self.get()->*next)();
                     self->cut_ = true;
                     const bool ended = error == asio::error::eof;
                     self->fail(ended ? "closed the connection during the handshake" : error.message());
                   });
}

// A new socket accepts these few bytes at once, or is broken.
bool Session::write(std::initializer_list<ConstBytes> pieces) {
  std::array<std::byte, 256> bytes;
  std::size_t size = 0;
  for (const ConstBytes piece : pieces) {
    std::memcpy(bytes.data() + size, piece.data(), piece.size());
    size += piece.size();
  }
  const ssize_t sent = ::send(socket_.fd(), bytes.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(size)) return true;
  cut_ = sent < 0;
  fail(sent < 0 ? std::strerror(errno) : "takes no more bytes although it has said little");
  return false;
}

void Session::fail(const std::string& why, bool suspect) {
  if (closed_) return;
  const auto keep = shared_from_this();
  closed_ = true;  // set first: the owner may iterate over its sessions
  owner_.failed(*this, why, suspect);
  close();
}

void Session::close() noexcept {
  closed_ = true;
  detach();
}

Descriptor Session::detach() noexcept {
  closed_ = true;
  boost::system::error_code ignored;
  if (asio_.is_open()) asio_.release(ignored);
  return std::move(socket_);
}

void Session::expire() { fail(std::string("sent no ") + waiting_for_ + " in time", inbound()); }

// ---- inbound ----

void Session::accepted(std::uint64_t number) {
  number_ = number;
  where_ = peer_text(socket_.fd());
  waiting_for_ = "hello";
  read(Bytes(connector_).first(magic_bytes), &Session::got_magic);
}

void Session::got_magic() {
  if (!has_magic(connector_)) return fail("does not speak tutti's protocol", true);
  read(Bytes(connector_).subspan(magic_bytes), &Session::got_hello);
}

void Session::got_hello() {
  const Hello caller = *decode(connector_);
  const Verdict verdict = owner_.self().judge(caller);
  if (verdict != Verdict::welcome) return refuse(verdict, caller);
  waits_ = true;
  if (owner_.met()) answer();
}

void Session::answer() {
  if (closed_ || !std::exchange(waits_, false)) return;
  const Hello caller = *decode(connector_);
  stream_ = static_cast<int>(caller.from + caller.connection * caller.size);
  if (owner_.settled(stream_)) return refuse(Verdict::surplus, caller);
  acceptor_ = encode(owner_.self().hello(stream_, owner_.self().instance));
  const Digest proof = owner_.self().proof(Membership::Side::acceptor, connector_, acceptor_);
  waiting_for_ = "proof of the secret";
  if (write({acceptor_, proof})) read(proof_, &Session::got_proof);
}

void Session::refuse(Verdict verdict, const Hello& caller) {
  Hello answer = owner_.self().hello(static_cast<int>(caller.from), owner_.self().instance);
  answer.verdict = verdict;
  if (!write({encode(answer)})) return;
  const bool suspect = verdict != Verdict::surplus && verdict != Verdict::wrong_target;
  fail(reason(verdict, caller), suspect);
}

void Session::got_proof() {
  const Digest wanted = owner_.self().proof(Membership::Side::connector, connector_, acceptor_);
  if (!equal_constant_time(wanted, ConstBytes(proof_).first(wanted.size()))) {
    return fail("claims to be rank " + std::to_string(peer()) + " but does not know the job's secret", true);
  }
  if (owner_.settled(stream_)) return fail("is connected already");
  const bool mine = owner_.self().rank < peer();
  if (!mine && proof_.back() != chosen) return fail("is connecting by another address");
  const std::array decision = {chosen};
  if (write({decision})) owner_.opened(*this);
}

// ---- outbound ----

void Session::connect(const Candidate& candidate, std::uint64_t instance) {
  instance_ = instance;
  where_ = endpoint_text(candidate.address, candidate.port);
  waiting_for_ = "answer to the connection";
  deadline_ = deadline_in(connect_time);
  asio_.async_connect(endpoint_of(candidate), [self = shared_from_this()](const boost::system::error_code& error) {
    if (self->closed_) return;
    if (error) return self->fail(error.message());
    self->connected();
  });
}

void Session::connected() {
  waiting_for_ = "answer to the hello";
  deadline_ = deadline_in(answer_time);
  connector_ = encode(owner_.self().hello(stream_, instance_));
  if (write({connector_})) read(acceptor_, &Session::got_answer);
}

void Session::got_answer() {
  const auto answer = decode(acceptor_);
  if (!answer) return fail("does not speak tutti's protocol");
  if (answer->version != wire_version) return fail(reason(Verdict::wrong_version, *answer), true);
  if (answer->verdict != Verdict::welcome) {
    return fail("refused us: it says that this rank " +
                reason(answer->verdict, owner_.self().hello(stream_, instance_)));
  }
  if (answer->from != static_cast<std::uint32_t>(peer()) || answer->instance != instance_) {
    return fail(reason(Verdict::wrong_target, *answer));
  }
  read(Bytes(proof_).first(sizeof(Digest)), &Session::got_answer_proof);
}

void Session::got_answer_proof() {
  const Digest wanted = owner_.self().proof(Membership::Side::acceptor, connector_, acceptor_);
  if (!equal_constant_time(wanted, ConstBytes(proof_).first(wanted.size()))) {
    return fail("does not know the job's secret", true);
  }
  if (owner_.settled(stream_)) return fail("is connected already");
  const bool mine = owner_.self().rank < peer();
  const std::array decision = {mine ? chosen : undecided};
  const Digest proof = owner_.self().proof(Membership::Side::connector, connector_, acceptor_);
  if (mine) owner_.choosing(*this);
  if (!write({proof, decision})) return;
  deadline_ = never;  // the peer may open it at any time, so it is never given up from here on
  read(Bytes(proof_).first(1), &Session::got_decision);
}

void Session::got_decision() {
  if (proof_.front() != chosen) return fail("sent an unknown decision", true);
  owner_.opened(*this);
}

}  // namespace tutti::tcp
