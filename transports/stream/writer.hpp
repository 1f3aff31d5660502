// StreamWriter: the sending half of a StreamTransport. Selects the next frame for each peer.
#pragma once

#include <optional>
#include <vector>

#include "transports/core/lazy_array.hpp"
#include "transports/stream/ledger.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::stream {

/// Each peer has three queues: urgent frames (control, abort, credit, cts, reject), messages in the order of their
/// send()s, and chunks of granted large messages in turn. The first stream serves all three queues, further streams
/// only the chunks, whenever the wire accepts bytes. A started frame is always written in full. A Send ends once its
/// last byte is written. Consumed credit is returned with the next frame, or in a frame of its own once it is half of
/// the limit.
class StreamWriter {
 public:
  StreamWriter(Wire& wire, Ledger& ledger, int size)
      : wire_(wire), ledger_(ledger), peers_(static_cast<std::size_t>(size)) {
    constexpr std::size_t many = 1024;
    active_.reserve(std::min(peers_.size(), many));
  }

  /// Queues an urgent frame; copies `payload`.
  void urgent(int to, const Frame& frame, ConstBytes payload = {});
  /// Queues an eager or rts frame of `send`.
  void message(int to, const Frame& frame, Send& send);
  /// The receiver has granted `send`: queues its data frames.
  void stream(Send& send);
  /// Queues the last frame, on every open stream.
  void goodbye(int to);
  /// Returns credit: `bytes` from `to` have been consumed.
  void give_back(int to, std::size_t bytes);

  /// Writes frames to `to` until about `budget` bytes are written or the wire is full. True if something was written.
  bool flush(int to, std::size_t budget);
  /// As flush(), for all peers in turn.
  bool flush_all(std::size_t budget);

  /// Removes `send`. If one of its frames is partly written, copies the rest of this frame, to be written later.
  /// Returns the credit of its other frames, in bytes.
  std::size_t withdraw(Send& send);
  /// Drops everything for `to`, which is gone.
  void clear(int to);

  /// True if nothing can be written before the wire has room again.
  bool quiet() const noexcept;
  bool empty(int to) const noexcept {
    const Peer* const peer = peers_.find(static_cast<std::size_t>(to));
    return (peer == nullptr || peer->idle()) && !ledger_.owes(to);
  }

 private:
  struct Out {
    Frame frame;
    ConstBytes payload;
    Send* send = nullptr;
    std::vector<std::byte> owned;  // the payload, if the writer owns it
  };
  struct Stream {
    Out current;
    bool busy = false;        // true if `current` is partly written
    std::size_t written = 0;  // written bytes of `current`, including the header
    bool blocked = false;     // the last Wire::write() took only a part
    bool ends = false;        // a goodbye is sent when nothing else is queued
  };
  struct Peer {
    std::vector<Stream> streams;
    Fifo<Out> urgent, messages;
    Fifo<Send*> granted;
    std::size_t turn = 0;        // the stream that choose() tried last in round-robin
    std::uint32_t goodbyes = 0;  // number of streams that end
    bool listed = false;         // true if the peer is in active_
    bool queued() const noexcept { return !urgent.empty() || !messages.empty() || !granted.empty(); }
    bool idle() const noexcept {
      return !queued() && std::ranges::none_of(streams, [](const Stream& one) { return one.busy || one.ends; });
    }
  };
  Peer& at(int rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.streams.empty()) peer.streams.resize(wire_.streams_per_peer());
    return peer;
  }
  int number(int to, std::size_t nth) const noexcept { return to + static_cast<int>(nth * peers_.size()); }
  void activate(int to);
  bool next(int to, std::size_t nth);
  Out part(int to);
  std::size_t open_streams(int to) const;
  std::optional<std::size_t> choose(int to);
  std::size_t write(int to, std::size_t nth);
  void written(Stream& stream);
  std::size_t withdraw_current(int to, Stream& stream);
  bool waits_for_room(int to, const Peer& peer) const noexcept;

  Wire& wire_;
  Ledger& ledger_;
  LazyArray<Peer> peers_;
  std::vector<int> active_;                     // peers with queued frames
  std::vector<std::vector<std::byte>> spares_;  // memory of written urgent payloads, reused for the next ones
  std::size_t turn_ = 0;
};

}  // namespace tutti::stream
