// Ranks whose StreamTransports are joined by a MemoryNet, driven in turn by one thread.
#pragma once

#include "tests/support/memory_wire.hpp"
#include "tests/support/ranks.hpp"

namespace tutti::testing {

class MemoryRanks {
 public:
  MemoryRanks(int size, std::size_t piece, std::size_t room = 100'000, unsigned seed = 1,
              const StreamLimits& limits = {}, MemoryNet::Placed placed = MemoryNet::Placed::never, int width = 1)
      : net(size, piece, room, seed, width) {
    net.limits = limits;
    net.placed = placed;
    for (int i = 0; i < size; ++i) {
      listeners.push_back(std::make_unique<RecordingListener>());
      transports.push_back(
          make_stream_transport("memory", i, size, std::make_unique<MemoryWire>(i, net), *listeners.back()));
    }
  }
  Transport& operator[](int i) { return *transports[static_cast<std::size_t>(i)]; }
  RecordingListener& listener(int i) { return *listeners[static_cast<std::size_t>(i)]; }

  Outcome& send(int from, int to, Tag t, ConstBytes data, std::uint64_t call = 0) {
    Outcome& outcome = outcomes.emplace_back();
    (*this)[from].send(to, t, call, data, note(outcome));
    EXPECT_FALSE(outcome.done()) << "a callback ran inside send()";
    return outcome;
  }
  Outcome& recv(int at, int from, Tag t, Bytes into, std::uint64_t call = 0) {
    Outcome& outcome = outcomes.emplace_back();
    (*this)[at].recv(from, t, call, into, note(outcome));
    EXPECT_FALSE(outcome.done()) << "a callback ran inside recv()";
    return outcome;
  }
  static Done note(Outcome& outcome) {
    return [&outcome](const Status& status) {
      ++outcome.runs;
      outcome.status = status;
    };
  }
  /// Makes progress on all ranks until none moves any more.
  void settle() {
    for (int still = 0; still < 3;) {
      bool moved = !net.puts.empty();
      for (auto& transport : transports)
        if (transport) moved |= transport->progress();
      still = moved ? 0 : still + 1;
    }
  }
  /// The rank ends normally.
  void leave(int i) { transports[static_cast<std::size_t>(i)].reset(); }
  int open() const {
    return static_cast<int>(
        std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.done(); }));
  }
  void expect_all_ok() {
    settle();
    for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.runs << " " << outcome.status.text();
  }

  MemoryNet net;
  std::vector<std::unique_ptr<RecordingListener>> listeners;
  std::vector<std::unique_ptr<Transport>> transports;
  std::deque<Outcome> outcomes;
};

}  // namespace tutti::testing
