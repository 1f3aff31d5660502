// Ranks as threads of a test, each with a provider's Backend and without a Communicator, to test the contract itself.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tutti/provider/provider.hpp"
#include "tutti/settings.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// A call that records what the backend reports about it.
struct Report final : Call {
  void trouble(const Status& why) override { troubles.push_back(why); }
  void enqueued(const Event& /*end*/) override {
    EXPECT_EQ(ends, 0) << "it had ended before";
    EXPECT_EQ(++enqueues, 1);
  }
  void abandoned() override {
    EXPECT_EQ(ends, 0) << "it had ended before";
    is_abandoned = true;
  }
  void ended(const Status& status) override {
    EXPECT_EQ(++ends, 1);
    outcome = status;
  }
  int ends = 0, enqueues = 0;
  bool is_abandoned = false;
  Status outcome;
  std::vector<Status> troubles;
};

class BackendRank {
 public:
  /// The engines in `beside` make progress together with the backend.
  BackendRank(int rank, int size, std::unique_ptr<Backend> made, std::vector<Engine*> beside = {})
      : rank_(rank), size_(size), beside_(std::move(beside)), backend(std::move(made)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Starts the call, and keeps it in this object.
  Report& start(Collective call, std::string_view algorithm = {}, const Event& after = {}) {
    Report& report = reports_.emplace_back();
    report.what = std::move(call);
    report.sequence = ++sequence_;
    report.summary = signature(report.what, rank_, size_);
    report.algorithm = algorithm;
    report.after = after;
    backend->start(report);
    return report;
  }
  /// Makes progress until `reached` returns true, and sleeps when there is nothing to do. Returns false after a minute.
  bool until(const std::function<bool()>& reached) {
    const Deadline late = deadline_in(Seconds(60));
    while (!reached()) {
      while (progress()) continue;
      if (reached()) break;
      if (Clock::now() > late) return false;
      sleep();
    }
    return true;
  }
  bool progress() {
    bool moved = backend->progress();
    for (Engine* const one : beside_) moved |= one->progress();
    return moved;
  }
  /// Starts the call and makes progress until its end. Throws if the call fails.
  void play(const Collective& call, std::string_view algorithm = {}) {
    Report& report = start(call, algorithm);
    const bool reached = until([&] { return report.ends > 0 || !report.troubles.empty(); });
    const std::string why(report.troubles.empty() ? report.outcome.text() : report.troubles.front().text());
    if (reached && report.ends == 1 && report.outcome.ok()) return;
    if (report.ends == 0)
      backend->cancel(Status::failure(Code::aborted, "the test has failed"));  // its buffers will be freed
    throw std::runtime_error("rank " + std::to_string(rank_) + ", " + std::string(name(call.kind)) + ": " +
                             (reached ? why : "no end after a minute; " + report.where()));
  }

 private:
  void sleep() {
    std::vector<Engine*> all = beside_;
    all.push_back(backend.get());
    std::vector<pollfd> bells;
    bool armed = true, polled = false;
    for (Engine* const one : all) {
      armed &= one->arm(true);
      polled |= one->polled();
      if (const int bell = one->fds().sleep; bell >= 0) bells.push_back({bell, POLLIN, 0});
    }
    if (armed) wakes += ::poll(bells.data(), bells.size(), polled ? 1 : 1000) > 0 ? 1 : 0;
    for (Engine* const one : all) one->arm(false);
  }

  int rank_, size_;
  std::vector<Engine*> beside_;
  std::uint32_t sequence_ = 0;
  std::deque<Report> reports_;

 public:
  std::unique_ptr<Backend> backend;
  int wakes = 0;  ///< how often the backend's descriptor ended a sleep
};

/// Runs `body` once per rank, each on a thread. The world rank of each rank is its rank + 10.
inline void run_backends(const Provider& provider, int size, const Settings& settings,
                         const std::function<void(BackendRank&)>& body) {
  const std::shared_ptr<Store> store = make_local_store();
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      try {
        Group group;
        group.id = 7;
        group.rank = i;
        std::vector<int> members;
        for (int r = 0; r < size; ++r) members.push_back(10 + r);
        group.members = members;
        BackendMeeting meeting;
        meeting.group = &group;
        meeting.world_size = 10 + size;
        meeting.store = store;
        meeting.local_rank = i;
        meeting.settings = &settings;
        meeting.until = deadline_in(Seconds(60));
        BackendRank rank(i, size, provider.make_backend(meeting));
        body(rank);
      } catch (const std::exception& problem) {
        ADD_FAILURE() << problem.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

/// A test of one provider's backend. Skips the test, with the reason, if the backend is not available.
class WithBackend : public ::testing::Test {
 protected:
  explicit WithBackend(std::string_view name, Settings own = {})
      : settings(std::move(own)), found(find_provider(name, settings)) {}
  void SetUp() override {
    if (!found.reason.empty()) GTEST_SKIP() << found.reason;
  }
  void run(int size, const std::function<void(BackendRank&)>& body) {
    run_backends(*found.provider, size, settings, body);
  }
  const Settings settings;
  const Found found;
  const Provider* const provider = found.provider;
};

}  // namespace tutti::testing
