// StreamTransport: a Transport over any ordered byte streams between ranks.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/clock.hpp"
#include "tutti/memory.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti {

/// Limits on data in flight over a wire. Both ends of a stream use the same.
struct StreamLimits {
  std::size_t eager = 16 << 10;   ///< larger messages wait for their recv (rendezvous)
  std::size_t credit = 64 << 10;  ///< payload that may be in flight to a peer, or buffered by it, without a recv
  std::size_t start = 0;          ///< bytes of a larger message sent with its announcement, within the credit
  std::size_t chunk = 128 << 10;  ///< longest data frame, so that messages interleave; a multiple of 8
};

/// A remote memory descriptor for one large message; its content is defined by the wires of both ranks.
struct RemotePlace {
  std::array<std::byte, 32> told{};
};

/// Direct placement of large messages (RDMA): the sender writes into the receiver's memory, and the stream carries only
/// the descriptors. Each transfer may fail at any time, and the message then uses the stream. `recv` and `send` are the
/// transport's numbers of the operations.
class Placing {
 public:
  virtual ~Placing() = default;

  /// Exposes `into` for one write by `from`. False: the message must use the stream.
  virtual bool offer(int from, std::uint64_t recv, Bytes into, RemotePlace& place) = 0;
  /// Starts to write `data` to the place that the peer has offered. False: the message must use the stream.
  virtual bool put(int to, std::uint64_t send, ConstBytes data, const RemotePlace& place) = 0;
  /// Withdraws the offer or the put; after the return nothing accesses its memory. Unknown numbers are ignored.
  virtual void revoke_offer(int from, std::uint64_t recv) noexcept = 0;
  virtual void revoke_put(int to, std::uint64_t send) noexcept = 0;

  /// The operations that ended since the last call. After a failed put, the sender sends the message through the
  /// stream; the receiver's offer stays open until the message is complete.
  struct Ended {
    enum class What : std::uint8_t { filled, put, failed_put };
    What what = What::filled;
    std::uint64_t number = 0;
  };
  virtual void take_ended(std::vector<Ended>& ended) = 0;
};

/// One ordered, reliable byte stream to and from each peer: a ring in shared memory, a socket. No call blocks, except
/// close(). All calls except watch() come from the holder of the progress token.
///
/// A stream is identified by its peer's rank. A wire may have further streams to a peer: the n-th has the number rank +
/// n * size, and carries parts of large messages whenever it has room.
class Wire {
 public:
  virtual ~Wire() = default;

  virtual StreamLimits limits() const noexcept { return {}; }

  /// Maximum number of streams to one peer; the same on all ranks.
  virtual std::size_t streams_per_peer() const noexcept { return 1; }

  /// Announces that `bytes` of a large message will be sent to `to`. A wire that may have further streams opens them in
  /// the background if that is worth it.
  virtual void widen(int /*to*/, std::size_t /*bytes*/) {}

  /// Writes as many bytes of `pieces`, in order, as fit now; returns their number. Opens the stream if it is not open
  /// yet, and returns 0 until it is open. Wakes `to` if it is armed. After a short write, this rank's `sleep`
  /// descriptor also reports new room.
  virtual std::size_t write(int to, std::span<const ConstBytes> pieces) = 0;

  /// Received bytes, contiguous, possibly not all of them; valid until consume().
  virtual ConstBytes peek(int from) = 0;
  virtual void consume(int from, std::size_t bytes) = 0;

  /// Moves received bytes into `into`, at most its size; returns their number. The default is peek, copy, consume;
  /// override if bytes can be received into `into` directly.
  virtual std::size_t read(int from, Bytes into);

  /// True if the stream `to` is open. Aborts, goodbyes and everything on further streams use only open streams and
  /// never open one.
  virtual bool open(int /*to*/) const noexcept { return true; }

  /// Appends to `streams` all streams that may have something to peek, also those that an earlier poll() has reported.
  /// Also does the wire's own work (accept, connect). May call failed() of the listener that the wire was made with.
  virtual void poll(std::vector<int>& streams) = 0;

  virtual Transport::Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;
  virtual bool polled() const noexcept { return false; }  ///< see Engine
  virtual void watch() {}

  /// A goodbye has arrived on the stream `from`. The end of this stream, which follows, is not a failure.
  virtual void farewell(int /*from*/) {}

  /// A recv, or an announced send, waits for `from`. A wire that opens streams lazily uses this to detect the death of
  /// a peer to which this rank writes nothing.
  virtual void expect(int /*from*/) {}

  /// `peer` is gone: nothing more is read from it or written to it on any stream, and its data no longer wake this
  /// rank. May be called while results of poll() or peek() for this peer are being handled.
  virtual void drop(int /*peer*/) noexcept {}

  /// The route to `to`: "10.0.0.2 via eth0"; empty if there is nothing to say.
  virtual std::string describe(int /*to*/) const { return {}; }

  /// Null if the wire has only streams. Valid as long as the wire.
  virtual Placing* placing() noexcept { return nullptr; }

  /// See Transport. drive() makes progress on the backends that make_backend() returned; true if one of them moved.
  virtual std::unique_ptr<Backend> make_backend(const Group& /*group*/) { return nullptr; }
  virtual bool drive() { return false; }
  virtual std::shared_ptr<void> allocate(std::size_t bytes) { return adopt(allocate_shared(bytes), bytes); }
  virtual std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t /*bytes*/) { return memory; }

  /// Makes sure that `to` wakes up and reads what was written, even if only its background thread is running. Called
  /// after control messages and aborts.
  virtual void ring(int to) noexcept = 0;

  /// Publishes a failure where all peers see it even when their streams are full (a record in a shared segment), and
  /// wakes them. False: there is no such place; use frames.
  virtual bool post(const Cause& why) noexcept = 0;

  /// This rank ends normally. Flushes written data, at most until `until`.
  virtual void close(Deadline until) noexcept = 0;
};

/// The protocol that all wires share: framing, matching, credit, rendezvous, cancellation, goodbye, messages to the
/// rank itself. Takes ownership of the wire; frames.hpp describes the frames.
std::unique_ptr<Transport> make_stream_transport(std::string name, int rank, int size, std::unique_ptr<Wire> wire,
                                                 TransportListener& listener);

}  // namespace tutti
