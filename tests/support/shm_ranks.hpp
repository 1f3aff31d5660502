// Ranks that are connected over shared memory, at the level of the Wire.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.hpp"
#include "transports/shm/meeting.hpp"

namespace tutti::testing {

/// One of `size` ranks on one host, which share `store`.
class ShmRank {
 public:
  ShmRank(int rank, int size, std::shared_ptr<Store> store, Settings settings = {}, Seconds limit = Seconds(30))
      : rank_(rank), size_(size), store_(std::move(store)), settings_(std::move(settings)) {
    Rendezvous rendezvous;
    rendezvous.rank = rank;
    rendezvous.size = size;
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) rendezvous.peers.push_back(peer);
    rendezvous.store = store_.get();
    rendezvous.settings = &settings_;
    rendezvous.listener = &listener;
    rendezvous.until = deadline_in(limit);
    met = shm::meet(rendezvous);
  }

  int rank() const { return rank_; }
  Wire& wire() { return *met.wire; }

  /// Sleeps until something may have arrived; returns false after 20 s.
  bool sleep() {
    if (!wire().arm(true)) return true;
    pollfd fd = {wire().fds().sleep, POLLIN, 0};
    const int ready = ::poll(&fd, 1, 20'000);
    wire().arm(false);
    return ready == 1;
  }

  /// Waits on the `watch` descriptor until `count` failures were reported; returns false after 20 s.
  bool watch_for(std::size_t count) {
    const Deadline late = deadline_in(Seconds(20));
    while (listener.causes().size() < count && Clock::now() < late) {
      pollfd fd = {wire().fds().watch, POLLIN, 0};
      if (::poll(&fd, 1, 1000) == 1) wire().watch();
    }
    return listener.causes().size() >= count;
  }

  /// Sends `bytes` bytes of a pattern to every other rank and checks what it receives, sleeping when idle. Returns ""
  /// if all is correct.
  std::string exchange(std::size_t bytes, std::size_t seed);

  RecordingListener listener;
  shm::Met met;

 private:
  int rank_, size_;
  std::shared_ptr<Store> store_;
  Settings settings_;
};

inline std::string ShmRank::exchange(std::size_t bytes, std::size_t seed) {
  const auto n = static_cast<std::size_t>(size_);
  std::vector<std::vector<std::byte>> out(n), in(n, std::vector<std::byte>(bytes));
  std::vector<std::size_t> sent(n, bytes), got(n, bytes);
  for (std::size_t peer = 0; peer < n; ++peer) {
    if (static_cast<int>(peer) == rank_) continue;
    sent[peer] = got[peer] = 0;
    out[peer] = pattern(bytes, seed + static_cast<std::size_t>(rank_) * n + peer);
  }
  std::vector<int> ready;
  for (std::size_t total = 0; total < 2 * n * bytes;) {
    for (int peer = 0; peer < size_; ++peer) {
      const auto i = static_cast<std::size_t>(peer);
      if (sent[i] == bytes) continue;
      // In two pieces, like a header and its payload.
      const std::size_t cut = std::min<std::size_t>(24, bytes - sent[i]);
      const ConstBytes rest = ConstBytes(out[i]).subspan(sent[i]);
      const ConstBytes pieces[] = {rest.first(cut), rest.subspan(cut)};
      sent[i] += wire().write(peer, pieces);
    }
    ready.clear();
    wire().poll(ready);
    for (const int peer : ready) {
      const auto i = static_cast<std::size_t>(peer);
      const std::size_t wanted = std::min(bytes - got[i], 1 + seed * 7919 % 100'000);
      got[i] += wire().read(peer, Bytes(in[i]).subspan(got[i], wanted));
    }
    if (!listener.causes().empty()) return listener.causes().front().text;
    total = std::accumulate(sent.begin(), sent.end(), std::size_t{0}) +
            std::accumulate(got.begin(), got.end(), std::size_t{0});
    if (ready.empty() && total < 2 * n * bytes && !sleep()) return "rank " + std::to_string(rank_) + " slept for ever";
  }
  for (std::size_t peer = 0; peer < n; ++peer)
    if (static_cast<int>(peer) != rank_ &&
        in[peer] != pattern(bytes, seed + peer * n + static_cast<std::size_t>(rank_)))
      return "rank " + std::to_string(rank_) + " got wrong bytes from rank " + std::to_string(peer);
  return "";
}

}  // namespace tutti::testing
