// A few tcp wires in one process, connected without a store, and a byte stream that can be checked at any offset.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transports/tcp/wire.hpp"

namespace tutti::testing {

/// Records the failures that a transport reports.
class Notes : public TransportListener {
 public:
  void failed(const Cause& why) override {
    const std::lock_guard lock(mutex_);
    causes_.push_back(why);
  }
  void control(int, ConstBytes) override {}
  std::vector<Cause> causes() const {
    const std::lock_guard lock(mutex_);
    return causes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Cause> causes_;
};

inline tcp::Membership member(int rank, int size, const std::string& secret = "secret") {
  tcp::Membership self;
  self.rank = rank;
  self.size = size;
  self.job = tcp::job_hash("job");
  self.secret = secret;
  return self;
}

/// Makes the wire of the acceptor's rank.
inline std::unique_ptr<tcp::TcpWire> meet(std::unique_ptr<tcp::Acceptor> acceptor, int size,
                                          const std::vector<tcp::Endpoint>& endpoints, TransportListener& notes) {
  const int rank = acceptor->endpoint().rank;
  acceptor->meet(tcp::Directory(size, endpoints));
  return std::make_unique<tcp::TcpWire>(rank, size, std::move(acceptor), notes);
}

/// An endpoint as one line of text, and the inverse.
inline std::string line_of(const tcp::Endpoint& endpoint) {
  const Text text = endpoint.text();
  return std::to_string(endpoint.rank) + "\n" + text.own + "\n" + text.shared;
}
inline tcp::Endpoint endpoint_in(const std::string& text) {
  const std::size_t one = text.find('\n'), two = text.find('\n', one + 1);
  return tcp::Endpoint::parse(std::atoi(text.c_str()), text.substr(one + 1, two - one - 1), text.substr(two + 1));
}

/// Exchange of endpoints between two processes over a pair of message sockets.
inline bool send_endpoint(int fd, const tcp::Endpoint& endpoint) {
  const std::string text = line_of(endpoint);
  return ::send(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}
inline tcp::Endpoint receive_endpoint(int fd) {
  char buffer[8192];
  const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
  return endpoint_in({buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
}

struct Mesh {
  explicit Mesh(int size, const std::string& allowed = "", const std::vector<int>& connections = {})
      : notes(static_cast<std::size_t>(size)) {
    std::vector<std::unique_ptr<tcp::Acceptor>> acceptors;
    for (int rank = 0; rank < size; ++rank) {
      tcp::AcceptorSettings settings{allowed, ""};
      if (!connections.empty()) settings.connections = connections[static_cast<std::size_t>(rank)];
      acceptors.push_back(
          std::make_unique<tcp::Acceptor>(member(rank, size), settings, notes[static_cast<std::size_t>(rank)]));
      endpoints.push_back(acceptors.back()->endpoint());
    }
    for (auto& acceptor : acceptors) {
      const auto rank = static_cast<std::size_t>(acceptor->endpoint().rank);
      wires.push_back(meet(std::move(acceptor), size, endpoints, notes[rank]));
    }
  }

  std::vector<Notes> notes;
  std::vector<tcp::Endpoint> endpoints;
  std::vector<std::unique_ptr<tcp::TcpWire>> wires;
};

/// The byte at `offset` of the stream between two ranks.
inline std::byte stream_byte(int from, int to, std::size_t offset) {
  const auto mixed = (offset + 1) * 2654435761u + static_cast<std::size_t>(from * 131 + to * 17);
  return static_cast<std::byte>(mixed >> 13 ^ mixed);
}

/// Exchanges data with all other ranks: writes random pieces, reads in random ways, and checks each byte.
class Talker {
 public:
  Talker(tcp::TcpWire& wire, int rank, int size, std::size_t bytes, unsigned seed)
      : wire_(wire), rank_(rank), bytes_(bytes), random_(seed), sent_(to_index(size)), received_(to_index(size)) {
    sent_[to_index(rank)] = received_[to_index(rank)] = bytes;
    into_.resize(300'000);
  }

  bool done() const { return all(sent_) && all(received_); }
  bool wrong() const { return wrong_; }

  void step() {
    blocked_ = true;
    for (int peer = 0; peer < static_cast<int>(sent_.size()); ++peer) {
      if (sent_[to_index(peer)] < bytes_) write(peer);
    }
    ranks_.clear();
    wire_.poll(ranks_);
    for (const int peer : ranks_) read(peer);
  }

  /// Runs until done. Spins a little, then sleeps as a context does.
  void run(const std::function<void(int)>& sleep) {
    while (!done() && !wrong_) {
      for (int i = 0; i < 20 && !done(); ++i) step();
      if (!done() && blocked_ && wire_.arm(true)) {
        sleep(wire_.fds().sleep);
        wire_.arm(false);
      }
    }
  }

 private:
  static std::size_t to_index(int i) { return static_cast<std::size_t>(i); }
  bool all(const std::vector<std::size_t>& counts) const {
    for (const std::size_t count : counts) {
      if (count < bytes_) return false;
    }
    return true;
  }
  std::size_t random(std::size_t most) { return 1 + random_() % most; }

  void write(int peer) {
    std::size_t& sent = sent_[to_index(peer)];
    std::vector<std::vector<std::byte>> pieces(random(4));
    std::vector<ConstBytes> views;
    std::size_t at = sent;
    for (auto& piece : pieces) {
      const std::size_t want = std::min(bytes_ - at, random(4) == 1 ? random(200'000) : random(300));
      for (std::size_t i = 0; i < want; ++i) piece.push_back(stream_byte(rank_, peer, at++));
      views.emplace_back(piece);
    }
    const std::size_t wrote = wire_.write(peer, views);
    sent += wrote;
    if (sent < bytes_ && at == sent) blocked_ = false;
  }

  void read(int peer) {
    std::size_t& received = received_[to_index(peer)];
    if (random(2) == 1) {
      const ConstBytes bytes = wire_.peek(peer);
      const std::size_t take = bytes.empty() ? 0 : random(bytes.size());
      check(peer, received, bytes.first(take));
      wire_.consume(peer, take);
      received += take;
    } else {
      const Bytes into(into_.data(), random(into_.size()));
      const std::size_t got = wire_.read(peer, into);
      check(peer, received, into.first(got));
      received += got;
    }
  }

  void check(int peer, std::size_t offset, ConstBytes bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) wrong_ |= bytes[i] != stream_byte(peer, rank_, offset + i);
  }

  tcp::TcpWire& wire_;
  int rank_;
  std::size_t bytes_;
  std::mt19937 random_;
  std::vector<std::size_t> sent_, received_;
  std::vector<std::byte> into_;
  std::vector<int> ranks_;
  bool wrong_ = false;
  bool blocked_ = true;  // no stream accepts bytes at the moment
};

/// Sleeps until `fd` is readable, at most `ms`.
inline void wait_readable(int fd, int ms) {
  pollfd wanted{fd, POLLIN, 0};
  ::poll(&wanted, fd < 0 ? 0 : 1, ms);
}

/// Open descriptors of this process.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace tutti::testing
