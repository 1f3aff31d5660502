// Session: one connection during its handshake (see handshake.hpp).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "transports/core/descriptor.hpp"
#include "transports/tcp/endpoint.hpp"
#include "transports/tcp/handshake.hpp"
#include "tutti/clock.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace tutti::tcp {

class Session;

/// Receives the results of sessions: the acceptor.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  virtual const Membership& self() const noexcept = 0;
  /// True if the connection needs no further attempt: it is open, lost or being chosen, or its number is too high.
  virtual bool settled(int stream) const noexcept = 0;
  /// True if the peers are known, so that callers can be answered; until then they wait.
  virtual bool met() const noexcept = 0;
  /// This session's connection is about to be chosen; opened() or failed() follows.
  virtual void choosing(Session& session) = 0;
  /// The handshake is complete and this connection is chosen. The session is closed afterwards.
  virtual void opened(Session& session) = 0;
  /// The session failed. `suspect`: log a warning, because a stranger may have called.
  virtual void failed(Session& session, const std::string& why, bool suspect) = 0;
};

/// Owned by the acceptor and by its pending Asio handlers; all calls are made by the acceptor, with its lock.
class Session : public std::enable_shared_from_this<Session> {
 public:
  enum class Way { inbound, outbound };

  /// Takes an accepted socket (inbound; `stream` -1), or a new one for the connection `stream` (outbound; see
  /// Membership).
  Session(boost::asio::io_context& context, SessionOwner& owner, Descriptor socket, Way way, int stream);

  /// Starts to read the caller's hello. `number`: the number that the acceptor gave to this caller.
  void accepted(std::uint64_t number);
  void answer();  ///< answers the hello of a caller if waits(); otherwise does nothing
  void connect(const Candidate& candidate, std::uint64_t instance);
  void expire();  ///< call once the deadline has passed
  void close() noexcept;

  /// Releases the socket from Asio.
  Descriptor detach() noexcept;

  int fd() const noexcept { return socket_.fd(); }
  int stream() const noexcept { return stream_; }            ///< -1 until the caller's hello names it
  std::uint64_t number() const noexcept { return number_; }  ///< of a caller; 0: outbound
  void renumber(std::uint64_t number) noexcept { number_ = number; }
  bool waits() const noexcept { return waits_; }  ///< its hello came before the peers were known
  bool inbound() const noexcept { return way_ == Way::inbound; }
  bool closed() const noexcept { return closed_; }
  /// The other side closed the connection in the handshake, as an acceptor does with the oldest of too many callers.
  bool cut() const noexcept { return cut_; }
  Deadline deadline() const noexcept { return deadline_; }  ///< of callers: never; the acceptor limits their time
  const std::string& where() const noexcept { return where_; }

 private:
  using Next = void (Session::*)();
  void read(Bytes into, Next next);
  bool write(std::initializer_list<ConstBytes> pieces);
  void fail(const std::string& why, bool suspect = false);
  void refuse(Verdict verdict, const Hello& caller);
  int peer() const noexcept { return owner_.self().peer_of(stream_); }

  // inbound
  void got_magic();
  void got_hello();
  void got_proof();
  // outbound
  void connected();
  void got_answer();
  void got_answer_proof();
  void got_decision();

  SessionOwner& owner_;
  Descriptor socket_;
  boost::asio::ip::tcp::socket asio_;
  Way way_;
  int stream_;
  bool closed_ = false, cut_ = false, waits_ = false;
  const char* waiting_for_ = "a hello";
  std::uint64_t number_ = 0;
  Deadline deadline_ = never;
  std::string where_;
  std::uint64_t instance_ = 0;
  HelloBytes connector_{}, acceptor_{};
  std::array<std::byte, 33> proof_{};  // includes the decision
};

}  // namespace tutti::tcp
