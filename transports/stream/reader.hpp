// StreamReader: the receiving half of a StreamTransport. Splits each stream's bytes into frames.
#pragma once

#include <vector>

#include "transports/core/lazy_array.hpp"
#include "transports/stream/ledger.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::stream {

/// The destination of a frame's payload: a recv, an arrival, a buffer of the reader, or none.
struct Sink {
  Landing into = {};
  Arrival* arrival = nullptr;
  bool small = false;
};

/// Receives every frame; the frames of one stream in order.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// A header has arrived. Returns the destination of its payload.
  virtual Sink begin(int from, const Frame& frame) = 0;
  /// The payload has arrived too; it is in `small` if begin() has returned a Sink with `small` set.
  virtual void end(int from, const Frame& frame, const Sink& sink, ConstBytes small) = 0;
  /// The stream is corrupt; the reader no longer reads from `from`.
  virtual void malformed(int from, const char* what) = 0;
};

class StreamReader {
 public:
  StreamReader(Wire& wire, FrameHandler& handler, int size)
      : wire_(wire),
        handler_(handler),
        limits_(wire.limits()),
        size_(size),
        streams_(static_cast<std::size_t>(size) * wire.streams_per_peer()) {
    constexpr std::size_t many = 1024;
    ready_.reserve(std::min(streams_.size(), many));  // so that poll() rarely allocates, even if many have data at once
  }

  /// Reads about `budget` bytes from all streams that the wire reports, in turn. True if something arrived.
  bool receive_all(std::size_t budget);
  /// Reads at most about `budget` bytes that have arrived from `from`, which is about to be closed.
  void drain(int from, std::size_t budget);
  /// The streams that the wire has reported to the last receive_all().
  const std::vector<int>& ready() const noexcept { return ready_; }
  /// False if the last receive_all() has left data because its budget was used up.
  bool quiet() const noexcept { return !more_; }

  /// Discards the rest of a payload that is arriving for `recv`.
  void forget(const Recv& recv);
  void forget(const Arrival& arrival);
  /// Stops reading from `from`, which is gone.
  void close(int from);
  /// As close(), and reports that `from` has sent `what`: see FrameHandler::malformed().
  void refuse(int from, const char* what);

 private:
  struct Stream {
    std::byte header[sizeof(Frame)] = {};
    std::size_t have = 0;  // bytes of the header received
    Frame frame;
    bool body = false;     // true if the header is complete
    std::size_t left = 0;  // bytes of payload still missing
    Sink sink;
    std::vector<std::byte> small;
    bool closed = false;
  };
  Stream& at(int stream) { return streams_[static_cast<std::size_t>(stream)]; }
  int peer_of(int stream) const noexcept { return stream % size_; }
  bool receive(int from, std::size_t budget);
  std::size_t read_header(int from, Stream& stream);
  std::size_t read_payload(int from, Stream& stream);
  /// Calls `function` for each stream of the peer that has been used.
  template <class Function>
  void each_of(int peer, Function function) {
    for (std::size_t i = static_cast<std::size_t>(peer); i < streams_.size(); i += static_cast<std::size_t>(size_))
      if (Stream* const stream = streams_.find(i)) function(*stream);
  }

  Wire& wire_;
  FrameHandler& handler_;
  const StreamLimits limits_;
  const int size_;
  LazyArray<Stream> streams_;
  std::vector<int> ready_;
  std::size_t turn_ = 0;
  bool more_ = false;
};

}  // namespace tutti::stream
