// StreamReader: the incoming half of a StreamTransport. Cuts each peer's bytes into frames.
#pragma once

#include <vector>

#include "transports/stream_ledger.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::stream {

/// Where a frame's payload goes: into a recv, into an arrival, into a buffer of the reader's, or nowhere.
struct Sink {
  Recv* recv = nullptr;
  Arrival* arrival = nullptr;
  bool small = false;
};

/// Told of every frame, in order.
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
      : wire_(wire), handler_(handler), limits_(wire.limits()), peers_(static_cast<std::size_t>(size)) {}

  /// Reads what is there, about `budget` bytes. True when something came.
  bool receive(int from, std::size_t budget);
  /// From all peers that the wire names, in turn.
  bool receive_all(std::size_t budget);
  /// Reads, about `budget` bytes at most, what has come from `from` before it is closed.
  void drain(int from, std::size_t budget);
  /// The last receive_all() left nothing because of its budget.
  bool quiet() const noexcept { return !more_; }

  /// A payload on its way there goes nowhere instead.
  void forget(const Recv& recv);
  void forget(const Arrival& arrival);
  /// Reads nothing more from `from`, which is gone.
  void close(int from) { at(from) = {}, at(from).closed = true; }
  void refuse(int from, const char* what);

 private:
  struct Peer {
    std::byte header[sizeof(Frame)] = {};
    std::size_t have = 0;  // bytes of the header
    Frame frame;
    bool body = false;     // the header is complete
    std::size_t left = 0;  // bytes of payload still to come
    Sink sink;
    std::vector<std::byte> small;
    bool closed = false;
  };
  Peer& at(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  std::size_t read_header(int from, Peer& peer);
  std::size_t read_payload(int from, Peer& peer);

  Wire& wire_;
  FrameHandler& handler_;
  const StreamLimits limits_;
  std::vector<Peer> peers_;
  std::vector<int> ready_;
  std::size_t turn_ = 0;
  bool more_ = false;
};

}  // namespace tutti::stream
