// Turns: starts of jobs, one after another, in a store that outlives them. Ranks are threads, each with its own client.
#include "tutti/turns.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/counting_store.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A store, by a function that returns clients of it. `tells`: true if it has set_at_end().
struct Place {
  std::function<std::shared_ptr<Store>()> client;
  bool tells = true;
};

Place own() {  // a store of the program's own
  return {[store = make_local_store()] { return store; }, false};
}
Place folder() {
  return {[folder = std::make_shared<testing::TemporaryFolder>()] { return make_file_store(folder->path()); }, true};
}
Place served() {
  return {[server = std::make_shared<TcpStoreServer>("127.0.0.1", 0, "hush")] {
            return connect_tcp_store("127.0.0.1", server->port(), "hush", deadline_in(Seconds(60)));
          },
          true};
}

/// A rank's client of the store, which records requests. Setting and waiting at once counts as one request.
class WatchedStore final : public testing::CountingStore {
 public:
  explicit WatchedStore(std::shared_ptr<Store> inner) : CountingStore(std::move(inner), false) {}
  int count() const { return static_cast<int>(requests); }
  /// True once the rank has waited for rank 0, in a turn or for the next turn.
  bool waits() const { return waits_; }
  /// The time that the rank may wait for the next turn.
  Seconds limit() const { return limit_; }
  /// Simulates that the process is killed while it waits for the others in a turn that it has opened.
  void end_in_wait() { ends_ = true; }

  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    if (key.ends_with("/next")) limit_ = until - Clock::now();
    if (key.ends_with("/next") || key.ends_with("/outcome")) waits_ = true;
    return CountingStore::wait_unless(key, unless, until);
  }
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) override {
    if (ends_) throw Error(Code::aborted, "killed");
    CountingStore::count(value.size());
    return inner().set_and_wait(key, value, keys, until);
  }

 private:
  std::atomic<bool> waits_ = false, ends_ = false;
  std::atomic<Seconds> limit_ = Seconds(0);
};

class Turns : public ::testing::TestWithParam<Place (*)()> {
 protected:
  /// Joins as one rank, and exchanges the rank with all others. Returns what went wrong.
  std::string join(int rank, int size, double patience = 60, const std::string& job = "") {
    return join(place_.client(), rank, size, patience, job);
  }
  std::string join(const std::shared_ptr<Store>& client, int rank, int size, double patience = 60,
                   const std::string& job = "") {
    try {
      const Deadline until = deadline_in(Seconds(patience));
      const auto store = join_turn(client, {rank, size, job, "by the test", patience}, until);
      std::string left_over;
      const std::string mine = "card/" + std::to_string(rank);
      if (store->find(mine, left_over)) return "an earlier start's key is visible";
      std::vector<Awaited> keys;
      for (int other = 0; other < size; ++other)
        keys.push_back({"card/" + std::to_string(other), departure_key(other)});
      const auto cards = store->set_and_wait(mine, std::to_string(rank), keys, until);
      for (int other = 0; other < size; ++other)
        if (cards[static_cast<std::size_t>(other)] != std::to_string(other)) return "another rank's card";
      return {};
    } catch (const Error& error) {
      culprit_ = error.culprit();
      return error.what();
    }
  }

  std::vector<std::string> start(const std::vector<int>& ranks, int size, double patience = 60) {
    std::vector<std::string> said(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] { said[i] = join(ranks[i], size, patience); });
    for (auto& thread : threads) thread.join();
    return said;
  }

  /// Starts 3 ranks, each once the previous one waits, and rank 0 last.
  std::vector<std::string> start_with_0_last() {
    std::vector<std::string> said(3);
    std::vector<std::thread> threads;
    for (const int rank : {1, 2}) {
      const auto client = std::make_shared<WatchedStore>(place_.client());
      threads.emplace_back([&, rank, client] { said[static_cast<std::size_t>(rank)] = join(client, rank, 3); });
      EXPECT_TRUE(testing::comes_true([&] { return client->waits(); }));
    }
    said[0] = join(0, 3);
    for (auto& thread : threads) thread.join();
    return said;
  }

  Place place_ = GetParam()();
  std::atomic<int> culprit_ = -1;
};

TEST_P(Turns, JobsOfAnySizeOneAfterTheOther) {
  for (const int size : {3, 3, 2, 5, 1, 3, 2}) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    EXPECT_THAT(start(ranks, size), ::testing::Each("")) << size;
  }
}

TEST_P(Turns, AfterAStartInWhichARankDidNotCome) {
  for (int round = 0; round < 2; ++round) {
    for (const std::string& said : start({0, 2}, 3, 0.3))
      EXPECT_THAT(said, ::testing::StartsWith("rank 1 has not joined the others in 0.3 s"));
    EXPECT_EQ(culprit_, 1);
  }
  EXPECT_THAT(start({0, 1, 2}, 3), ElementsAre("", "", ""));
}

// In the old turn, the seat of rank 1 is free, and the seat of rank 2 is taken.
TEST_P(Turns, WhoComesFirstWaitsForTheNewTurn) {
  start({0, 2}, 3, 0.3);
  EXPECT_THAT(start_with_0_last(), ElementsAre("", "", ""));
}

TEST_P(Turns, ATurnInWhichTheSeatWasTakenIsNotOnesOwn) {
  start({0, 2}, 3, 0.3);
  const auto client = std::make_shared<WatchedStore>(place_.client());
  std::string said;
  std::thread first([&] { said = join(client, 2, 3); });
  EXPECT_TRUE(testing::comes_true([&] { return client->waits(); }));
  EXPECT_GT(client->limit(), Seconds(30));  // of 60 s, although the turn has failed
  EXPECT_THAT(start({0, 1}, 3), ElementsAre("", ""));
  first.join();
  EXPECT_EQ(said, "");
}

TEST_P(Turns, WhoComesTooLateIsTold) {
  start({0, 2}, 3, 0.3);
  EXPECT_EQ(join(1, 3, 0.3),
            "rank 0 had given up this start before rank 1 came: start the ranks again, closer together, or raise rank "
            "0's TUTTI_CONNECT_TIMEOUT");
}

TEST_P(Turns, AfterAStartThatWasKilledInTheMiddle) {
  const auto client = std::make_shared<WatchedStore>(place_.client());
  client->end_in_wait();
  EXPECT_EQ(join(client, 0, 3), "killed");
  EXPECT_THAT(start_with_0_last(), ElementsAre("", "", ""));
  EXPECT_THAT(start({0, 1, 2}, 3), ElementsAre("", "", ""));
}

TEST_P(Turns, WithoutRank0) {
  for (const std::string& said : start({1, 2}, 3, 0.3))
    EXPECT_THAT(said, ::testing::StartsWith("rank 0 has not joined the others in 0.3 s"));
  EXPECT_THAT(start({0, 1, 2}, 3), ElementsAre("", "", ""));
}

TEST_P(Turns, ARankThatEndsBeforeAllHaveCome) {
  if (!place_.tells) GTEST_SKIP() << "this store does not tell the end of a process";
  std::string said;
  auto client = place_.client();
  std::thread first([&] { said = join(0, 3); });
  std::thread leaving([&] {
    const Error error = testing::caught([&] {
      join_turn(std::move(client), {1, 3, "", "by the test", 0.2}, deadline_in(Seconds(0.2)));
    });
    EXPECT_EQ(error.culprit(), 2) << error.what();
  });
  leaving.join();
  first.join();
  EXPECT_THAT(said, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(said, HasSubstr("has ended before it joined the others"));
  EXPECT_EQ(culprit_, 1);
  EXPECT_THAT(start({0, 1, 2}, 3), ElementsAre("", "", ""));
}

TEST_P(Turns, WhatALauncherTells) {
  const Seat seat{2, 3, "", {}, 60};
  tell_departure(*place_.client(), seat, "rank 2 (pid 7) exited with code 0");
  for (const std::string& said : start({0, 1}, 3))
    EXPECT_THAT(said, ::testing::StartsWith("rank 2 (pid 7) exited with code 0 before it joined the others"));
  EXPECT_THAT(start({0, 1}, 2), ElementsAre("", "")) << "a job of another size";
}

// The second rank 0 ends the turn of the first one, whose error says what to do.
TEST_P(Turns, TwoJobsAtOnce) {
  std::string first, second, value;
  std::thread one([&] { first = join(0, 2); });
  EXPECT_TRUE(testing::comes_true([&] { return place_.client()->find("tutti//2/door/1/hello/0", value); }));
  std::thread other([&] { second = join(0, 2); });
  EXPECT_TRUE(testing::comes_true([&] { return place_.client()->find("tutti//2/door/2/hello/0", value); }));
  EXPECT_EQ(join(1, 2), "");
  one.join();
  other.join();
  EXPECT_EQ(second, "");
  EXPECT_THAT(first, HasSubstr("has come as rank 0 of 2 while this one waited for the others"));
  EXPECT_THAT(first, HasSubstr("TUTTI_JOB"));
}

TEST_P(Turns, TwoJobsAtOnceWithNames) {
  std::vector<std::string> said(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { said[static_cast<std::size_t>(i)] = join(i / 2, 2, 60, i % 2 == 0 ? "one" : "two"); });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(said, ::testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(Stores, Turns, ::testing::Values(own, folder, served));

// The requests depend neither on the size of the job nor on earlier turns in the store.
TEST(TurnCosts, AFewRequestsOfEachRank) {
  for (const int size : {2, 16}) {
    const auto store = make_local_store();
    for (int round = 0; round < 3; ++round) {
      std::vector<std::shared_ptr<WatchedStore>> clients;
      for (int rank = 0; rank < size; ++rank) clients.push_back(std::make_shared<WatchedStore>(store));
      const auto is_open = [&] {
        std::string now;
        const std::string turn = std::to_string(round + 1) + " ";
        return store->find("tutti//" + std::to_string(size) + "/now", now) && now.starts_with(turn);
      };
      std::vector<std::thread> threads;
      for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
          // The other ranks come once the turn is open, so that they find its number in their first request.
          while (rank > 0 && !is_open()) std::this_thread::yield();
          const auto view = join_turn(clients[static_cast<std::size_t>(rank)], {rank, size, "", "by the test", 60},
                                      deadline_in(Seconds(60)));
          view->wait("go", deadline_in(Seconds(60)));
        });
      make_prefix_store(store, "tutti//" + std::to_string(size) + "/" + std::to_string(round + 1))->set("go", "");
      for (auto& thread : threads) thread.join();
      // Rank 0: find, add, set, set_at_end, set_and_wait, set_once, the test's wait; two more end the turn before.
      EXPECT_EQ(clients[0]->count(), round == 0 ? 7 : 9);
      // Other ranks: wait, two finds, set_once, set_at_end, wait, and the test's wait.
      for (int rank = 1; rank < size; ++rank) EXPECT_EQ(clients[static_cast<std::size_t>(rank)]->count(), 7) << rank;
    }
  }
}

}  // namespace
}  // namespace tutti::launchers
