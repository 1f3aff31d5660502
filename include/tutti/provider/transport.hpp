// Transport: point-to-point messages between ranks, on which all algorithms are built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/buffer.hpp"
#include "tutti/memory.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/reduce.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// Identifies a sequence of messages between two ranks. Messages with equal tags never overtake one another.
struct Tag {
  std::uint64_t group = 0;     ///< the communicator
  std::uint32_t sequence = 0;  ///< number of the collective in the communicator, or the user's tag of a send
  std::uint32_t lane = 0;
  bool operator==(const Tag&) const = default;
};

/// An unexpected message: received or announced, without a posted recv().
struct Unmatched {
  int from = any_rank;     ///< world rank
  std::size_t bytes = 0;   ///< of the whole message
  std::uint64_t call = 0;  ///< the signature that the sender passed to send()
};

/// A completion callback: called exactly once, inside progress() or cancel(), never inside the call that started the
/// operation.
using Done = std::function<void(const Status&)>;

/// Receives a transport's reports. The transport may call it from any thread. Implementations must only record reports.
class TransportListener {
 public:
  virtual ~TransportListener() = default;
  /// Reports a failure, once per cause. The implementation spreads the cause to the other ranks.
  virtual void failed(const Cause& why) = 0;
  /// Delivers a small message that rank `from` sent with Transport::control(); it needs no recv().
  virtual void control(int from, ConstBytes message) = 0;
  /// Reports that Transport::control() has dropped a message for a rank that has ended normally.
  virtual void departed(int /*rank*/) {}
};

/// Messages between ranks of one job, including to the rank itself. Ranks are world ranks.
///
/// Threads: every call except watch() is made by the holder of the context's progress token, a lock, so implementations
/// need no locks.
/// Ownership: a buffer passed to send(), recv() or recv_reduce() belongs to the transport until its `done` ran.
/// Order: messages with equal tags between two ranks match in the order of the calls. A send without a posted recv
/// never blocks another tag: small messages are buffered at the receiver up to a credit per peer (64 KiB; tcp: 256
/// KiB), larger ones wait for the recv.
/// Errors are passed to `done`: mismatch if the signatures or sizes of sender and receiver differ (on both ranks),
/// peer_lost if the other rank is gone.
class Transport : public Engine {
 public:
  Transport(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Sends or receives a message, which may have zero bytes. `call` is the signature of the message's collective; it is
  /// sent with the message and compared with the receiver's signature.
  virtual void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) = 0;
  virtual void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) = 0;

  /// Receives a message of into.size() bytes and reduces it: into = with (op) received. `with` may be `into` itself.
  /// The default receives into pooled scratch memory; override it if received data can be read where they arrive.
  virtual void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with,
                           const Fold& fold, Done done);

  /// Probe: returns the oldest unmatched message with `tag` from rank `from`, or any_rank. The message stays queued for
  /// the next recv().
  virtual std::optional<Unmatched> arrived(int /*from*/, const Tag& /*tag*/) { return std::nullopt; }

  /// Cancels the oldest unmatched recv() with this tag whose buffer starts at `into`; its `done` never runs. Returns
  /// false if there is no such recv(). Sends nothing to the peer.
  virtual bool retract(int /*from*/, const Tag& /*tag*/, const std::byte* /*into*/) { return false; }

  /// Sends up to `max_control` bytes to the peer's listener; needs no recv(). Wakes the peer if it sleeps. Best effort:
  /// a message to a lost peer is dropped.
  virtual void control(int to, ConstBytes message) = 0;
  static constexpr std::size_t max_control = 1024;

  /// Sends a failure to every reachable rank. Called before connections are closed. Never throws.
  virtual void spread(const Cause& why) noexcept = 0;

  /// Ends every operation of `group` (0: of all groups) with `why`. After it returns, nothing accesses their buffers.
  /// Partly sent messages do not corrupt the stream of later messages.
  virtual void cancel(std::uint64_t group, const Status& why) noexcept = 0;

  /// Makes the transport's own collectives for `group`, for example over memory that all its ranks share. Null on all
  /// ranks if the transport has none. The transport drives the backend while calls are in flight; nobody else need
  /// drive it. The backend is destroyed before the transport, with the token held. Any thread; never blocks.
  virtual std::unique_ptr<Backend> make_backend(const Group& /*group*/) { return nullptr; }

  /// Allocates memory that peers can access fastest: see Communicator::allocate. May outlive the transport. Any thread.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) { return allocate_shared(bytes); }

  /// Prepares memory of the caller, or of another transport of this rank, for this transport's messages. This lasts as
  /// long as the result, which owns `memory`. Any thread.
  virtual std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t /*bytes*/) { return memory; }

  /// The route to `to`, for people: "tcp 10.0.0.2 via eth0".
  virtual std::string describe(int /*to*/) const { return name_; }

 private:
  std::string name_;
  int rank_, size_;
};

}  // namespace tutti
