// MemoryWire: byte streams in memory between ranks of one thread; each call moves a random number of bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "transports/stream/transport.hpp"

namespace tutti::testing {

/// All streams of a test: `width` from each rank to each other. A write or a peek moves at most `piece` bytes, and a
/// stream holds at most `room` bytes.
struct MemoryNet {
  struct Stream {
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    std::size_t total = 0;  // bytes written so far
    std::size_t unread() const { return bytes.size() - head; }
  };
  MemoryNet(int ranks, std::size_t longest_piece, std::size_t room_in_stream, unsigned seed, int streams_per_peer = 1)
      : size(ranks),
        width(streams_per_peer),
        piece(longest_piece),
        room(room_in_stream),
        random(seed),
        streams(static_cast<std::size_t>(ranks * ranks * streams_per_peer)),
        farewells(static_cast<std::size_t>(ranks)),
        drops(static_cast<std::size_t>(ranks)),
        expectations(static_cast<std::size_t>(ranks)) {}

  /// A message that is placed directly.
  struct Put {
    int from, to;
    std::uint64_t send, recv;
    ConstBytes data;
    std::size_t gone;
  };
  enum class Placed { never, always, in_part };  // in_part: each piece may fail
  Placed placed = Placed::never;
  std::map<std::tuple<int, int, std::uint64_t>, Bytes> offers;  // by receiver, sender, number
  std::vector<Put> puts;
  std::map<int, std::vector<Placing::Ended>> ended;  // by rank
  int filled = 0, failed = 0;

  Stream& stream(int from, int to, int nth = 0) {
    return streams[static_cast<std::size_t>((from * size + to) * width + nth)];
  }
  std::size_t length() {
    return piece == unlimited ? unlimited : std::uniform_int_distribution<std::size_t>(1, piece)(random);
  }

  static constexpr std::size_t unlimited = ~std::size_t{0};
  int size, width;
  std::size_t piece, room;
  int late = -1;  // the number of a stream to each peer on which nothing arrives for now; -1: none
  std::vector<std::pair<int, int>> closed;  // sender and receiver whose streams are not open
  StreamLimits limits;
  std::mt19937 random;
  std::vector<Stream> streams;
  std::vector<std::vector<int>> farewells;     // by rank: arguments of Wire::farewell()
  std::vector<std::vector<int>> drops;         // by rank: arguments of Wire::drop()
  std::vector<std::vector<int>> expectations;  // by rank: arguments of Wire::expect()
  std::vector<std::size_t> widened;            // bytes passed to Wire::widen()
};

class MemoryWire final : public Wire, private Placing {
 public:
  MemoryWire(int rank, MemoryNet& net) : rank_(rank), net_(net) {}

  StreamLimits limits() const noexcept override { return net_.limits; }
  std::size_t streams_per_peer() const noexcept override { return static_cast<std::size_t>(net_.width); }
  void widen(int, std::size_t bytes) override { net_.widened.push_back(bytes); }
  std::size_t write(int to, std::span<const ConstBytes> pieces) override {
    MemoryNet::Stream& stream = net_.stream(rank_, to % net_.size, to / net_.size);
    std::size_t left = std::min(net_.length(), net_.room - std::min(net_.room, stream.unread())), went = 0;
    for (const ConstBytes piece : pieces) {
      const std::size_t part = std::min(piece.size(), left);
      stream.bytes.insert(stream.bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(part));
      left -= part;
      went += part;
    }
    stream.total += went;
    return went;
  }
  ConstBytes peek(int from) override {
    const MemoryNet::Stream& stream = incoming(from);
    if (stream.unread() == 0 || from / net_.size == net_.late) return {};
    return ConstBytes(stream.bytes).subspan(stream.head, std::min(net_.length(), stream.unread()));
  }
  void consume(int from, std::size_t bytes) override {
    MemoryNet::Stream& stream = incoming(from);
    stream.head += bytes;
    if (stream.head != stream.bytes.size()) return;
    stream.bytes.clear();
    stream.head = 0;
  }
  void poll(std::vector<int>& ranks) override {
    std::erase_if(net_.puts, [this](MemoryNet::Put& put) { return put.from == rank_ && step(put); });
    for (int from = 0; from < net_.size * net_.width; ++from)
      if (incoming(from).unread()) ranks.push_back(from);
  }
  Transport::Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool open(int to) const noexcept override {
    return std::ranges::find(net_.closed, std::pair(rank_, to)) == net_.closed.end();
  }
  void farewell(int from) override { net_.farewells[static_cast<std::size_t>(rank_)].push_back(from); }
  void expect(int from) override { net_.expectations[static_cast<std::size_t>(rank_)].push_back(from); }
  void drop(int peer) noexcept override {
    net_.drops[static_cast<std::size_t>(rank_)].push_back(peer);
    std::erase_if(net_.puts, [&](const auto& put) { return put.from == rank_ && put.to == peer; });
    std::erase_if(net_.offers,
                  [&](const auto& one) { return std::get<0>(one.first) == rank_ && std::get<1>(one.first) == peer; });
  }
  Placing* placing() noexcept override { return net_.placed == MemoryNet::Placed::never ? nullptr : this; }
  void ring(int) noexcept override {}
  bool post(const Cause&) noexcept override { return false; }
  void close(Deadline) noexcept override {}

 private:
  MemoryNet::Stream& incoming(int from) { return net_.stream(from % net_.size, rank_, from / net_.size); }
  bool offer(int from, std::uint64_t recv, Bytes into, RemotePlace& place) override {
    net_.offers[{rank_, from, recv}] = into;
    std::memcpy(place.told.data(), &recv, sizeof(recv));
    return true;
  }
  bool put(int to, std::uint64_t send, ConstBytes data, const RemotePlace& place) override {
    std::uint64_t recv = 0;
    std::memcpy(&recv, place.told.data(), sizeof(recv));
    net_.puts.push_back({rank_, to, send, recv, data, 0});
    return true;
  }
  void revoke_offer(int from, std::uint64_t recv) noexcept override { net_.offers.erase({rank_, from, recv}); }
  void revoke_put(int to, std::uint64_t send) noexcept override {
    std::erase_if(net_.puts, [&](const auto& put) { return put.from == rank_ && put.to == to && put.send == send; });
  }
  void take_ended(std::vector<Ended>& ended) override { ended.swap(net_.ended[rank_]); }

  // Writes one more piece; returns true once the put has ended.
  bool step(MemoryNet::Put& put) {
    const auto offer = net_.offers.find({put.to, rank_, put.recv});
    const bool fails = net_.placed == MemoryNet::Placed::in_part && net_.random() % 32 == 0;
    if (fails || offer == net_.offers.end()) {
      ++net_.failed;
      net_.ended[rank_].push_back({Ended::What::failed_put, put.send});
      return true;
    }
    const std::size_t part = std::min(put.data.size() - put.gone, net_.length());
    std::memcpy(offer->second.data() + put.gone, put.data.data() + put.gone, part);
    put.gone += part;
    if (put.gone < put.data.size()) return false;
    ++net_.filled;
    net_.ended[rank_].push_back({Ended::What::put, put.send});
    net_.ended[put.to].push_back({Ended::What::filled, put.recv});
    net_.offers.erase(offer);
    return true;
  }

  int rank_;
  MemoryNet& net_;
};

}  // namespace tutti::testing
