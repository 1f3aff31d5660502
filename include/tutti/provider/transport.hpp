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
  std::uint64_t call = 0;  ///< the signature passed to its send()
};

/// A completion callback: called exactly once, inside progress() or cancel(), never inside the call that started the
/// operation.
using Done = std::function<void(const Status&)>;

/// Receives a transport's reports. May be called from any thread, and must only record them.
class TransportListener {
 public:
  virtual ~TransportListener() = default;
  /// A failure, reported once per cause. The receiver spreads it to the other ranks.
  virtual void failed(const Cause& why) = 0;
  /// A small message sent with Transport::control(), which needs no recv().
  virtual void control(int from, ConstBytes message) = 0;
};

/// Messages between ranks of one job, including to the rank itself. Ranks are world ranks.
///
/// Threads: every call except watch() is made by the holder of the context's progress token, so implementations need no
/// locks.
/// Ownership: a buffer passed to send(), recv() or recv_reduce() belongs to the transport until its `done` ran.
/// Order: messages with equal tags between two ranks match in the order of the calls. A send without a posted recv
/// never blocks another tag: small messages are buffered at the receiver up to a credit per peer (64 KiB; tcp: 256
/// KiB), larger ones wait for the recv.
/// Errors are passed to `done`: mismatch if the signatures or sizes of the two sides differ (both are told), peer_lost
/// if the other rank is gone.
class Transport : public Engine {
 public:
  Transport(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// `call` is the signature of the collective that the message belongs to; it is sent along and compared with the
  /// receiver's. Zero bytes are a message too.
  virtual void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) = 0;
  virtual void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) = 0;

  /// Receives a message of into.size() bytes and reduces it: into = with (op) received. `with` may be `into` itself.
  /// The default receives into pooled scratch memory; override if received data can be read in place.
  virtual void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with,
                           const Fold& fold, Done done);

  /// The oldest unmatched message with `tag` from rank `from`, or from any_rank (a probe). It stays queued for the
  /// recv() that follows.
  virtual std::optional<Unmatched> arrived(int /*from*/, const Tag& /*tag*/) { return std::nullopt; }

  /// Cancels the oldest unmatched recv() with this tag and this start of `into`; its `done` never runs. False if there
  /// is none. The peer is not told.
  virtual bool retract(int /*from*/, const Tag& /*tag*/, const std::byte* /*into*/) { return false; }

  /// Sends up to `max_control` bytes to the peer's listener, without a recv; wakes the peer if it sleeps. Best effort:
  /// lost peers are skipped.
  virtual void control(int to, ConstBytes message) = 0;
  static constexpr std::size_t max_control = 1024;

  /// Reports a failure to every reachable rank; called before anything is closed. Never throws.
  virtual void spread(const Cause& why) noexcept = 0;

  /// Ends every operation of `group` (0: of all groups) with `why`; after the return nothing accesses their buffers.
  /// Partly sent messages do not corrupt the stream.
  virtual void cancel(std::uint64_t group, const Status& why) noexcept = 0;

  /// Collectives over what this transport shares with all of `group`; null if there are none, the same on all ranks.
  /// The transport drives them, those with calls in flight, as it does its messages: nobody else has to. They end
  /// before it, destroyed by the holder of the token. Any thread; never blocks.
  virtual std::unique_ptr<Backend> make_backend(const Group& /*group*/) { return nullptr; }

  /// Allocates memory that peers can access fastest: see Communicator::allocate. May outlive the transport. Any thread.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) { return allocate_shared(bytes); }

  /// Prepares `memory` of the caller, or of another transport of this rank, for this transport's messages while the
  /// result lives. Any thread.
  virtual std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t /*bytes*/) { return memory; }

  /// The route to `to`, for people: "tcp 10.0.0.2 via eth0".
  virtual std::string describe(int /*to*/) const { return name_; }

 private:
  std::string name_;
  int rank_, size_;
};

}  // namespace tutti
