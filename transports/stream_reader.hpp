// StreamReader: the incoming half of a StreamTransport. Cuts each stream's bytes into frames.
#pragma once

#include <vector>

#include "transports/stream_ledger.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::stream {

/// Where a frame's payload goes: into a recv, into an arrival, into a buffer of the reader's, or nowhere.
struct Sink {
  Landing into = {};
  Arrival* arrival = nullptr;
  bool small = false;
};

/// Told of every frame; of those of one stream, in order.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// A header has come. Answers where its payload goes.
  virtual Sink begin(int from, const Frame& frame) = 0;
  /// The payload has come too; `small` is it where the sink asked for that.
  virtual void end(int from, const Frame& frame, const Sink& sink, ConstBytes small) = 0;
  /// What came is no frame: the reader listens to `from` no more.
  virtual void malformed(int from, const char* what) = 0;
};

class StreamReader {
 public:
  StreamReader(Wire& wire, FrameHandler& handler, int size)
      : wire_(wire),
        handler_(handler),
        limits_(wire.limits()),
        size_(size),
        streams_(static_cast<std::size_t>(size) * wire.streams_per_peer()) {}

  /// Reads what is there by all streams that the wire names, in turn, about `budget` bytes. True when something came.
  bool receive_all(std::size_t budget);
  /// Reads, about `budget` bytes at most, what has come from `from` before it is closed.
  void drain(int from, std::size_t budget);
  /// The last receive_all() left nothing because of its budget.
  bool quiet() const noexcept { return !more_; }

  /// A payload on its way there goes nowhere instead.
  void forget(const Recv& recv);
  void forget(const Arrival& arrival);
  /// Reads nothing more from `from`, which is gone.
  void close(int from);
  void refuse(int from, const char* what);

 private:
  struct Stream {
    std::byte header[sizeof(Frame)] = {};
    std::size_t have = 0;  // bytes of the header
    Frame frame;
    bool body = false;     // the header is complete
    std::size_t left = 0;  // bytes of payload still to come
    Sink sink;
    std::vector<std::byte> small;
    bool closed = false;
  };
  Stream& at(int stream) noexcept { return streams_[static_cast<std::size_t>(stream)]; }
  int peer_of(int stream) const noexcept { return stream % size_; }
  bool receive(int from, std::size_t budget);
  std::size_t read_header(int from, Stream& stream);
  std::size_t read_payload(int from, Stream& stream);
  template <class Function>
  void each_of(int peer, Function function) {
    for (std::size_t i = static_cast<std::size_t>(peer); i < streams_.size(); i += static_cast<std::size_t>(size_))
      function(streams_[i]);
  }

  Wire& wire_;
  FrameHandler& handler_;
  const StreamLimits limits_;
  const int size_;
  std::vector<Stream> streams_;
  std::vector<int> ready_;
  std::size_t turn_ = 0;
  bool more_ = false;
};

}  // namespace tutti::stream
