// MemoryWire: byte streams between ranks of one thread, cut into pieces of random length.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "transports/stream_transport.hpp"

namespace tutti::testing {

/// All streams of a test. A write or a peek sees at most `piece` bytes, a stream holds at most `room`.
struct MemoryNet {
  struct Stream {
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    std::size_t total = 0;  // ever written
    std::size_t unread() const { return bytes.size() - head; }
  };
  MemoryNet(int ranks, std::size_t longest_piece, std::size_t room_in_stream, unsigned seed)
      : size(ranks),
        piece(longest_piece),
        room(room_in_stream),
        random(seed),
        streams(static_cast<std::size_t>(ranks * ranks)),
        farewells(static_cast<std::size_t>(ranks)),
        drops(static_cast<std::size_t>(ranks)),
        expectations(static_cast<std::size_t>(ranks)) {}

  Stream& stream(int from, int to) { return streams[static_cast<std::size_t>(from * size + to)]; }
  std::size_t length() {
    return piece == unlimited ? unlimited : std::uniform_int_distribution<std::size_t>(1, piece)(random);
  }

  static constexpr std::size_t unlimited = ~std::size_t{0};
  int size;
  std::size_t piece, room;
  StreamLimits limits;
  std::mt19937 random;
  std::vector<Stream> streams;
  std::vector<std::vector<int>> farewells;     // by rank: who said goodbye to it
  std::vector<std::vector<int>> drops;         // by rank: whom it has dropped
  std::vector<std::vector<int>> expectations;  // by rank: from whom a recv waits
};

class MemoryWire final : public Wire {
 public:
  MemoryWire(int rank, MemoryNet& net) : rank_(rank), net_(net) {}

  StreamLimits limits() const noexcept override { return net_.limits; }
  std::size_t write(int to, std::span<const ConstBytes> pieces) override {
    MemoryNet::Stream& stream = net_.stream(rank_, to);
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
    const MemoryNet::Stream& stream = net_.stream(from, rank_);
    if (stream.unread() == 0) return {};
    return ConstBytes(stream.bytes).subspan(stream.head, std::min(net_.length(), stream.unread()));
  }
  void consume(int from, std::size_t bytes) override {
    MemoryNet::Stream& stream = net_.stream(from, rank_);
    stream.head += bytes;
    if (stream.head != stream.bytes.size()) return;
    stream.bytes.clear();
    stream.head = 0;
  }
  void poll(std::vector<int>& ranks) override {
    for (int from = 0; from < net_.size; ++from)
      if (net_.stream(from, rank_).unread()) ranks.push_back(from);
  }
  Transport::Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  void farewell(int from) override { net_.farewells[static_cast<std::size_t>(rank_)].push_back(from); }
  void expect(int from) override { net_.expectations[static_cast<std::size_t>(rank_)].push_back(from); }
  void drop(int peer) noexcept override { net_.drops[static_cast<std::size_t>(rank_)].push_back(peer); }
  void ring(int) noexcept override {}
  bool post(const Cause&) noexcept override { return false; }
  void close(Deadline) noexcept override {}

 private:
  int rank_;
  MemoryNet& net_;
};

}  // namespace tutti::testing
