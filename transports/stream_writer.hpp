// StreamWriter: the outgoing half of a StreamTransport. Which frame goes next to each peer.
#pragma once

#include <optional>
#include <vector>

#include "transports/stream_ledger.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::stream {

/// Frames wait in three queues per peer: urgent ones (control, abort, credit, cts, reject), then
/// messages in the order of their send()s, then the chunks of granted large messages in turn. The first
/// stream takes from all of them, further ones from the last, each as soon as it has room. A
/// frame that has begun is always written to its end. Ends a Send once its last byte is written.
/// Consumed credit goes back with whatever frame goes next, or in one of its own once it is half of all.
class StreamWriter {
 public:
  StreamWriter(Wire& wire, Ledger& ledger, int size)
      : wire_(wire), ledger_(ledger), peers_(static_cast<std::size_t>(size)) {
    for (Peer& peer : peers_) peer.streams.resize(wire.streams_per_peer());
  }

  void urgent(int to, const Frame& frame, ConstBytes payload = {});
  /// An eager or rts frame of `send`.
  void message(int to, const Frame& frame, Send& send);
  /// The peer is ready for `send`: its data frames may go.
  void stream(Send& send);
  /// The last frame, by every open stream.
  void goodbye(int to);
  /// So many bytes that came from `to` have been consumed.
  void give_back(int to, std::size_t bytes);

  /// Writes frames to `to` until about `budget` bytes went or the wire is full. True when something went.
  bool flush(int to, std::size_t budget);
  /// All peers in turn.
  bool flush_all(std::size_t budget);

  /// Forgets `send`; what of its current frame is still to be written is copied away. Returns the
  /// credit of a frame of which not a byte had been written.
  std::size_t withdraw(Send& send);
  /// Forgets everything for `to`, which is gone.
  void clear(int to);

  /// Nothing waits for anything but room in the wire.
  bool quiet() const noexcept;
  bool empty(int to) const noexcept { return at(to).idle() && !owes(to); }

 private:
  struct Out {
    Frame frame;
    ConstBytes payload;
    Send* send = nullptr;
    std::vector<std::byte> owned;  // the payload, where nobody else keeps it
  };
  struct Stream {
    Out current;
    bool busy = false;        // `current` is under way
    std::size_t written = 0;  // bytes of it, header included
    bool blocked = false;     // the wire took less than it was given
    bool ends = false;        // a goodbye goes when nothing else does
  };
  struct Peer {
    std::vector<Stream> streams;
    Fifo<Out> urgent, messages;
    Fifo<Send*> granted;
    std::size_t turn = 0;        // the stream that is asked first
    std::uint32_t goodbyes = 0;  // how many streams end
    bool listed = false;         // in active_
    bool queued() const noexcept { return !urgent.empty() || !messages.empty() || !granted.empty(); }
    bool idle() const noexcept {
      return !queued() && std::ranges::none_of(streams, [](const Stream& one) { return one.busy || one.ends; });
    }
  };
  Peer& at(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& at(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  int number(int to, std::size_t nth) const noexcept { return to + static_cast<int>(nth * peers_.size()); }
  void activate(int to);
  bool owes(int to) const noexcept {
    return ledger_.credits[static_cast<std::size_t>(to)].consumed >= ledger_.limits.credit / 2;
  }
  bool next(int to, std::size_t nth);
  Out part(int to);
  std::size_t open_streams(int to) const noexcept;
  std::optional<std::size_t> choose(int to);
  std::size_t write(int to, std::size_t nth);
  void written(Stream& stream);
  std::size_t withdraw_current(int to, Stream& stream);
  bool waits_for_room(int to) const noexcept;

  Wire& wire_;
  Ledger& ledger_;
  std::vector<Peer> peers_;
  std::vector<int> active_;  // peers with something to write
  std::size_t turn_ = 0;
};

}  // namespace tutti::stream
