// Transport: messages between ranks. The floor that every algorithm stands on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transports/backend.hpp"
#include "transports/core/buffer.hpp"
#include "transports/core/memory.hpp"
#include "transports/core/reduce.hpp"
#include "transports/core/status.hpp"

namespace tutti {

/// Names one stream of messages between two ranks. Equal tags never overtake one another.
struct Tag {
  std::uint64_t group = 0;     ///< the communicator
  std::uint32_t sequence = 0;  ///< its n-th collective, or the user's tag of a send
  std::uint32_t lane = 0;
  bool operator==(const Tag&) const = default;
};

/// A message that has come, or was announced, and that no recv() has been posted for.
struct Unmatched {
  int from = any_rank;     ///< world rank
  std::size_t bytes = 0;   ///< of the whole message
  std::uint64_t call = 0;  ///< what its send() was given
};

/// Where an operation reports, exactly once, from inside progress() or cancel(); never from
/// inside the call that started it.
using Done = std::function<void(const Status&)>;

/// What a transport tells its owner. Calls may come from any thread, and must only take note.
class TransportListener {
 public:
  virtual ~TransportListener() = default;
  /// Ranks have failed; the first such news about a cause. Whoever receives it spreads it.
  virtual void failed(const Cause& why) = 0;
  /// A small message that no recv() asked for (see Transport::control).
  virtual void control(int from, ConstBytes message) = 0;
};

/// Messages between ranks of one job, numbered as in the job (world ranks); also to oneself.
///
/// Threads: every call but watch() is made by the holder of the context's progress token, so
/// implementations need no locks. Ownership: a buffer handed to send(), recv() or
/// recv_reduce() is the transport's until its `done` ran. Order: equal tags between two ranks
/// match in the order of the calls. A send whose recv is not posted never blocks another tag:
/// small messages are buffered at the receiver up to a credit per peer (64 KiB; tcp: 256 KiB),
/// larger ones wait for the recv. Errors go to `done`: mismatch when the two sides' signatures or sizes
/// differ (both ends are told), peer_lost when the other rank is gone.
class Transport : public Engine {
 public:
  Transport(std::string name, int rank, int size) : name_(std::move(name)), rank_(rank), size_(size) {}

  const std::string& name() const noexcept { return name_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// `call` is the signature of the collective that the message belongs to; it travels along and
  /// is compared with the receiver's. Zero bytes are a message too.
  virtual void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) = 0;
  virtual void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) = 0;

  /// Receives a message of into.size() bytes and folds it: into = with (op) received. `with`
  /// may be `into` itself. The default receives into pooled scratch; override where the
  /// wire can be read in place.
  virtual void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with,
                           const Fold& fold, Done done);

  /// The oldest unmatched message of `tag` from rank `from`, or from any_rank. Takes nothing: a recv() that follows
  /// gets it.
  virtual std::optional<Unmatched> arrived(int /*from*/, const Tag& /*tag*/) { return std::nullopt; }

  /// Takes back the oldest of the recv()s with this tag and this beginning of `into` that no message has come for; its
  /// `done` never runs. False where there is none. The peer knows nothing of it.
  virtual bool retract(int /*from*/, const Tag& /*tag*/, const std::byte* /*into*/) { return false; }

  /// Sends up to `max_control` bytes that arrive at the peer's listener, without a recv, waking
  /// the peer if it sleeps. Best effort: lost peers are skipped.
  virtual void control(int to, ConstBytes message) = 0;
  static constexpr std::size_t max_control = 1024;

  /// Tells every reachable rank of a failure, before anything is closed. Never throws.
  virtual void spread(const Cause& why) noexcept = 0;

  /// Ends every operation of `group` (0: of all groups) with `why`; when it returns, nobody
  /// touches their buffers any more. Messages half way keep the stream intact.
  virtual void cancel(std::uint64_t group, const Status& why) noexcept = 0;

  /// Whole collectives over what this transport shares with all of `group`; null where it has none, on all ranks
  /// alike. They sleep and wake with the transport, and end before it does. Any thread; never blocks.
  virtual std::unique_ptr<Backend> make_backend(const Group& /*group*/) { return nullptr; }

  /// Memory that peers reach at its best: see Communicator::allocate. May outlive the transport. Any thread.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) { return allocate_shared(bytes); }

  /// `memory` of the caller's, or that another transport of this rank allocated, made ready for this one's messages
  /// while the result lives. Any thread.
  virtual std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t /*bytes*/) { return memory; }

  /// How `to` is reached, for people: "tcp 10.0.0.2 via eth0".
  virtual std::string describe(int /*to*/) const { return name_; }

 private:
  std::string name_;
  int rank_, size_;
};

}  // namespace tutti
