// Ranks as threads of a test: each has a transport, a listener that records events, and a deadline.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tutti/clock.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// Records everything that a transport reports.
class RecordingListener final : public TransportListener {
 public:
  void failed(const Cause& why) override {
    const std::scoped_lock lock(mutex_);
    causes_.push_back(why);
  }
  void control(int from, ConstBytes message) override {
    const std::scoped_lock lock(mutex_);
    controls_.emplace_back(from, std::string(reinterpret_cast<const char*>(message.data()), message.size()));
  }
  std::vector<Cause> causes() const {
    const std::scoped_lock lock(mutex_);
    return causes_;
  }
  std::vector<std::pair<int, std::string>> controls() const {
    const std::scoped_lock lock(mutex_);
    return controls_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Cause> causes_;
  std::vector<std::pair<int, std::string>> controls_;
};

/// How one operation ended.
struct Outcome {
  int runs = 0;
  Status status;
  bool done() const { return runs > 0; }
  bool ok() const { return runs == 1 && status.ok(); }
};

/// The state that the ranks of one test share: in memory if they are threads, in a store if they are processes.
class Gathering {
 public:
  explicit Gathering(int ranks, std::shared_ptr<Store> store = nullptr) : size(ranks), store_(std::move(store)) {}
  const int size;

  /// Counts this rank's arrival at a meeting. arrived() returns the arrivals of all ranks.
  void arrive() { store_ ? void(store_->add("arrived", 1)) : void(++arrived_); }
  int arrived() {
    std::string text;
    if (store_) return store_->find("arrived", text) ? std::atoi(text.c_str()) : 0;
    return arrived_;
  }
  void fail() { store_ ? store_->set("failed", "yes") : void(failed_ = true); }
  bool failed() {
    std::string text;
    return store_ ? store_->find("failed", text) : failed_.load();
  }

 private:
  const std::shared_ptr<Store> store_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

struct Stuck : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One rank of a test, on its own thread. Every wait drives the transport meanwhile, and ends after a minute with an
/// exception that says who waited for what.
class Rank {
 public:
  Rank(int rank, Gathering& all) : rank_(rank), all_(all) {}

  int rank() const { return rank_; }
  int size() const { return all_.size; }
  int next() const { return (rank_ + 1) % size(); }
  int prev() const { return (rank_ + size() - 1) % size(); }

  RecordingListener listener;
  std::unique_ptr<Transport> transport;

  Outcome& send(int to, const Tag& tag, ConstBytes from, std::uint64_t call = 0) {
    Outcome& outcome = outcomes_.emplace_back();
    transport->send(to, tag, call, from, note(outcome));
    EXPECT_FALSE(outcome.done()) << "a callback ran inside send()";
    return outcome;
  }
  Outcome& recv(int from, const Tag& tag, Bytes into, std::uint64_t call = 0) {
    Outcome& outcome = outcomes_.emplace_back();
    transport->recv(from, tag, call, into, note(outcome));
    EXPECT_FALSE(outcome.done()) << "a callback ran inside recv()";
    return outcome;
  }
  Outcome& recv_reduce(int from, const Tag& tag, Bytes into, const std::byte* with, const Fold& fold,
                       std::uint64_t call = 0) {
    Outcome& outcome = outcomes_.emplace_back();
    transport->recv_reduce(from, tag, call, into, with, fold, note(outcome));
    return outcome;
  }

  void until(const std::function<bool()>& reached, const std::string& what) {
    const Deadline late = deadline_in(Seconds(60));
    for (int idle = 0; !reached();) {
      idle = transport->progress() ? 0 : idle + 1;
      if (idle > 50) std::this_thread::yield();
      if (idle % 256 == 255 && all_.failed()) give_up("stops: another rank failed");
      if (Clock::now() > late) give_up("waited 60 s for " + what);
    }
  }
  /// As until(), but sleeps when there is no progress. Returns how often it woke up.
  int until_asleep(const std::function<bool()>& reached, const std::string& what) {
    int wakes = 0;
    while (!reached()) {
      while (transport->progress()) continue;
      if (reached()) break;
      ++wakes;
      if (!sleep()) give_up("slept for 20 s, waiting for " + what);
    }
    return wakes;
  }
  void finish(const Outcome& outcome, const std::string& what) {
    until([&] { return outcome.done(); }, what);
    EXPECT_TRUE(outcome.ok()) << "rank " << rank_ << ", " << what << ": " << outcome.status.text();
  }
  void finish_all(const std::string& what) {
    for (const Outcome& outcome : outcomes_) finish(outcome, what);
  }
  /// Makes progress until every rank has called this as often as this rank.
  void meet(const std::string& where) {
    const int target = ++meetings_ * size();
    all_.arrive();
    until([&] { return all_.arrived() >= target; }, "the others at " + where);
  }

 private:
  bool sleep() {
    pollfd fd{transport->fds().sleep, POLLIN, 0};
    const bool polled = transport->polled();  // if true, a sleeping rank must poll from time to time
    const bool woken = !transport->arm(true) || ::poll(&fd, 1, polled ? 1 : 20'000) == 1 || polled;
    transport->arm(false);
    return woken;
  }
  [[noreturn]] void give_up(const std::string& why) {
    transport->cancel(0, Status::failure(Code::aborted, "the test has failed"));  // its buffers will be freed
    throw Stuck("rank " + std::to_string(rank_) + " " + why);
  }
  static Done note(Outcome& outcome) {
    return [&outcome](const Status& status) {
      ++outcome.runs;
      outcome.status = status;
    };
  }
  int rank_;
  Gathering& all_;
  int meetings_ = 0;
  std::deque<Outcome> outcomes_;
};

using Connect = std::function<std::unique_ptr<Transport>(Rank&)>;

/// Runs `body` as one rank, on the calling thread.
inline void run_rank(int number, Gathering& all, const Connect& connect, const std::function<void(Rank&)>& body) {
  Rank rank(number, all);
  try {
    rank.transport = connect(rank);
    body(rank);
  } catch (const std::exception& problem) {
    all.fail();
    ADD_FAILURE() << problem.what();
  }
  rank.transport.reset();
}

/// Runs `body` once per rank, each on a thread with the transport that `connect` makes.
inline void run_ranks(int size, const Connect& connect, const std::function<void(Rank&)>& body) {
  Gathering all(size);
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) threads.emplace_back([&, i] { run_rank(i, all, connect, body); });
  for (std::thread& thread : threads) thread.join();
}

/// Returns `count` bytes that depend on `seed` and position. Written by words, which is faster under sanitizers.
inline std::vector<std::byte> pattern(std::size_t count, std::size_t seed) {
  std::vector<std::byte> bytes(count);
  std::uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::size_t i = 0; i < count; i += sizeof(word)) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(bytes.data() + i, &word, std::min(sizeof(word), count - i));
  }
  return bytes;
}

/// True if both are equal. Faster than operator==, which compares each std::byte by itself.
inline bool same(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace tutti::testing
