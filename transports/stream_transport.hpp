// StreamTransport: a Transport over anything that carries ordered bytes between two ranks.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/memory.hpp"
#include "transports/transport.hpp"

namespace tutti {

/// How much may be under way over a wire. Both ends of a stream have the same.
struct StreamLimits {
  std::size_t eager = 16 << 10;   ///< larger messages wait for their recv
  std::size_t credit = 64 << 10;  ///< payload that may be under way to one peer without a recv, or unread there
  std::size_t start = 0;          ///< of a larger message, goes along with its announcement, within the credit
  std::size_t chunk = 128 << 10;  ///< longest data frame, so that messages interleave; a multiple of 8
};

/// Where a peer may put the bytes of one large message: what the wires of both ranks make of it.
struct Place {
  std::array<std::byte, 32> told{};
};

/// A wire's other way for large messages: the sender puts them into the receiver's memory, and the stream carries only
/// who may put what where. Each may fail at any time, and the message then goes by the stream after all. Numbers are
/// the transport's own, of a recv or of a send.
class Placing {
 public:
  virtual ~Placing() = default;

  /// Opens `into` for `from` to fill, once. False: it has to come by the stream.
  virtual bool offer(int from, std::uint64_t recv, Bytes into, Place& place) = 0;
  /// Begins to put `data` where the peer has offered a place. False: it has to go by the stream.
  virtual bool put(int to, std::uint64_t send, ConstBytes data, const Place& place) = 0;
  /// The offer or the put is no more; when it returns, nobody touches its memory. Unknown numbers are ignored.
  virtual void revoke_offer(int from, std::uint64_t recv) noexcept = 0;
  virtual void revoke_put(int to, std::uint64_t send) noexcept = 0;

  /// What has ended since it was asked last. A put that did not succeed goes by the stream; its offer stays open for
  /// that.
  struct Ended {
    enum class What : std::uint8_t { filled, put, failed_put };
    What what = What::filled;
    std::uint64_t number = 0;
  };
  virtual void take_ended(std::vector<Ended>& ended) = 0;
};

/// One ordered, reliable byte stream to each peer, and one from each: a ring in shared memory, a
/// socket. Nothing here blocks. Calls come from the holder of the progress token.
///
/// A stream has its peer's rank as number. A wire may have further ones to a peer: the number of the n-th is
/// rank + n * size, and parts of large messages go by whichever has room.
class Wire {
 public:
  virtual ~Wire() = default;

  virtual StreamLimits limits() const noexcept { return {}; }

  /// How many streams there may be to one peer, on all ranks alike.
  virtual std::size_t streams_per_peer() const noexcept { return 1; }

  /// So many bytes of a large message are about to go to `to`: a wire that may have further streams opens them, in its
  /// own time, where that is worth it.
  virtual void widen(int /*to*/, std::size_t /*bytes*/) {}

  /// Writes as many bytes of `pieces`, in order, as fit now; returns how many. Opens the
  /// stream if it is not open yet (then 0 until it is). Wakes `to` if it armed itself; after a
  /// short write, this rank's own `sleep` descriptor also tells when there is room again.
  virtual std::size_t write(int to, std::span<const ConstBytes> pieces) = 0;

  /// Bytes that have arrived, contiguous, perhaps not all of them; stay valid until consume().
  virtual ConstBytes peek(int from) = 0;
  virtual void consume(int from, std::size_t bytes) = 0;

  /// Moves arrived bytes into `into`, as many as there are; returns how many. The default is
  /// peek, copy, consume; override where bytes can land in `into` directly.
  virtual std::size_t read(int from, Bytes into);

  /// Whether the stream `to` is open: aborts, goodbyes and all that goes by further streams go to those only, and never
  /// open one.
  virtual bool open(int /*to*/) const noexcept { return true; }

  /// Streams that may have something to peek (also what an earlier poll() told of), appended to `streams`; also does
  /// what the wire itself has to do (accept, connect). May report failed(), through the listener it was made with.
  virtual void poll(std::vector<int>& streams) = 0;

  virtual Transport::Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;
  virtual bool polled() const noexcept { return false; }  ///< see Engine
  virtual void watch() {}

  /// A goodbye came by the stream `from`: its end, which comes next, is not a failure.
  virtual void farewell(int /*from*/) {}

  /// A recv, or an announced send, waits for something from `from`: a wire whose streams open lazily sees to it, in its
  /// own time, that such a peer's absence is noticed although nobody writes to it.
  virtual void expect(int /*from*/) {}

  /// `peer` is gone for good: nothing of it is read any more by any stream, nothing is written to it, and whatever
  /// still comes from it keeps nobody awake. Also while poll() or peek() of it is being worked off.
  virtual void drop(int /*peer*/) noexcept {}

  /// How `to` is reached, for routes: "10.0.0.2 via eth0"; empty where there is nothing to say.
  virtual std::string describe(int /*to*/) const { return {}; }

  /// Null: all goes by the streams. As long as the wire lives.
  virtual Placing* placing() noexcept { return nullptr; }

  /// See Transport.
  virtual std::unique_ptr<Backend> make_backend(const Group& /*group*/) { return nullptr; }
  virtual std::shared_ptr<void> allocate(std::size_t bytes) { return adopt(allocate_shared(bytes), bytes); }
  virtual std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t /*bytes*/) { return memory; }

  /// Makes sure that `to` wakes up and looks at what was written, however it sleeps: also when
  /// only its background thread is there. Called after control messages and aborts.
  virtual void ring(int to) noexcept = 0;

  /// A failure that concerns everyone: write it where all peers will see it even when their
  /// streams are full (a word in a segment). False: there is no such place, use frames.
  virtual bool post(const Cause& why) noexcept = 0;

  /// This rank ends normally; flush what was written, for at most `until`.
  virtual void close(Deadline until) noexcept = 0;
};

/// The protocol, once for all wires: framing, matching, credit, rendezvous, cancellation,
/// goodbye, messages to oneself. Takes the wire; see the .cpp for the frame format.
std::unique_ptr<Transport> make_stream_transport(std::string name, int rank, int size, std::unique_ptr<Wire> wire,
                                                 TransportListener& listener);

}  // namespace tutti
