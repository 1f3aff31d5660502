// Tests of what every Store promises. The test of each implementation includes this and instantiates StoreContract.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/caught.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// client() returns a new client of one common store at each call. The fixture keeps that store alive.
struct StoreUnderTest {
  std::function<std::shared_ptr<Store>()> client;
};

class StoreContract : public ::testing::TestWithParam<StoreUnderTest (*)()> {
 protected:
  void SetUp() override { under_test_ = GetParam()(); }
  std::shared_ptr<Store> client() { return under_test_.client(); }
  static Deadline soon() { return deadline_in(Seconds(30)); }

 private:
  StoreUnderTest under_test_;
};

TEST_P(StoreContract, LastWriterWins) {
  auto a = client(), b = client();
  a->set("key", "one");
  b->set("key", "two");
  EXPECT_EQ(a->wait("key", soon()), "two");
  std::string value;
  EXPECT_TRUE(b->find("key", value));
  EXPECT_EQ(value, "two");
}

TEST_P(StoreContract, FindAnswersAtOnce) {
  std::string value = "untouched";
  EXPECT_FALSE(client()->find("nobody's", value));
  EXPECT_EQ(value, "untouched");
}

TEST_P(StoreContract, KeysAndValuesAreAnyBytes) {
  auto store = client();
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::vector<std::string> keys = {"",
                                         ".",
                                         "..",
                                         "a/b",
                                         "a",
                                         "A",
                                         "%61",
                                         "a\n",
                                         std::string("a\0", 2),
                                         all,
                                         std::string(1000, 'k'),
                                         std::string(1000, '\xff')};
  for (std::size_t i = 0; i < keys.size(); ++i) store->set(keys[i], all + std::to_string(i));
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(client()->wait(keys[i], soon()), all + std::to_string(i));
  store->set("empty", "");
  EXPECT_EQ(store->wait("empty", soon()), "");
}

TEST_P(StoreContract, ValuesUpToOneMebibyte) {
  auto store = client();
  const std::string large(std::size_t{1} << 20, 'x');
  store->set("large", large);
  EXPECT_EQ(client()->wait("large", soon()), large);
  const Error error = caught([&] { store->set("larger", large + "x"); });
  EXPECT_EQ(error.code(), Code::invalid);
  EXPECT_NE(std::string(error.what()).find("larger'"), std::string::npos) << error.what();
  EXPECT_EQ(caught([&] { store->set(std::string(1025, 'k'), ""); }).code(), Code::invalid);
  EXPECT_EQ(store->wait("large", soon()), large);  // a refused call leaves the store usable
}

TEST_P(StoreContract, WaitSleepsUntilSomebodySets) {
  auto waiter = client();
  std::string seen;
  std::thread waiting([&] { seen = waiter->wait("late", soon()); });
  client()->set("late", "here");
  waiting.join();
  EXPECT_EQ(seen, "here");
}

TEST_P(StoreContract, WaitNamesKeyAndPlaceWhenItGivesUp) {
  auto store = client();
  const Error error = caught([&] { store->wait("who\n", deadline_in(Seconds(0.02))); });
  EXPECT_EQ(error.code(), Code::timeout);
  const std::string text = error.what();
  EXPECT_NE(text.find("who\\x0a'"), std::string::npos) << text;
  EXPECT_NE(text.find("store"), std::string::npos) << text;
  store->set("who\n", "me");  // the store is usable afterwards
  EXPECT_EQ(store->wait("who\n", Clock::now()), "me");
}

TEST_P(StoreContract, SetAndWaitTellsAllOfOneAnother) {
  constexpr int ranks = 4;
  const std::vector<std::string> keys = {"rank 0", "rank 1", "rank 2", "rank 3"};
  std::vector<std::vector<std::string>> heard(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = ranks; r-- > 0;)
    threads.emplace_back([store = client(), r, &keys, &heard] {
      for (int round = 0; round < 20; ++round) {
        const std::string number = std::to_string(round) + "/";
        std::vector<Awaited> ours;
        for (const std::string& key : keys) ours.push_back({number + key});
        heard[r] = store->set_and_wait(ours[r].key, number + std::string(r, 'x'), ours, soon());
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& values : heard) EXPECT_EQ(values, (std::vector<std::string>{"19/", "19/x", "19/xx", "19/xxx"}));
  EXPECT_EQ(client()->set_and_wait("alone", "", {}, soon()), std::vector<std::string>());
}

TEST_P(StoreContract, SetAndWaitNamesTheKeyThatIsMissing) {
  auto store = client();
  const std::vector<Awaited> keys = {{"mine"}, {"nobody's"}, {"mine"}};
  const Error error = caught([&] { store->set_and_wait("mine", "here", keys, deadline_in(Seconds(0.02))); });
  EXPECT_EQ(error.code(), Code::timeout);
  EXPECT_NE(std::string(error.what()).find("nobody's'"), std::string::npos) << error.what();
  EXPECT_EQ(client()->wait("mine", soon()), "here");
  store->set("nobody's", "somebody's");
  EXPECT_EQ(store->set_and_wait("mine", "again", keys, Clock::now()),
            (std::vector<std::string>{"again", "somebody's", "again"}));
}

TEST_P(StoreContract, AWaitEndsWhenWhoWasToSetTheKeyHasEnded) {
  auto waiter = client();
  std::vector<Error> seen;
  std::thread waiting([&] {
    seen.push_back(caught([&] { waiter->wait_unless("theirs", "gone", soon()); }));
    seen.push_back(caught([&] {
      waiter->set_and_wait("mine", "here", std::vector<Awaited>{{"mine", "alive"}, {"theirs", "gone"}}, soon());
    }));
  });
  client()->set("gone", departure_text(2, "rank 2 (pid 17) exited with code 0"));
  waiting.join();
  ASSERT_EQ(seen.size(), 2U);
  for (const Error& error : seen) {
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_EQ(error.culprit(), 2);
    EXPECT_EQ(std::string(error.what()).find("rank 2 (pid 17) exited with code 0 before it joined the others"), 0U)
        << error.what();
  }
  EXPECT_EQ(client()->wait("mine", soon()), "here");                               // the waiter's own key is set
  const std::vector<Awaited> both = {{"slow", "slow's end"}, {"theirs", "gone"}};  // the first key may still be set
  EXPECT_EQ(caught([&] { waiter->set_and_wait("mine", "here", both, soon()); }).culprit(), 2);
  client()->set("theirs", "after all");  // a key that is set takes precedence over the end
  EXPECT_EQ(waiter->wait_unless("theirs", "gone", soon()), "after all");
  EXPECT_EQ(waiter->set_and_wait("mine", "again", std::vector<Awaited>{{"theirs", "gone"}}, soon()),
            std::vector<std::string>{"after all"});
}

TEST_P(StoreContract, AnEndIsToldBehindAKeyThatIsWaitedFor) {
  auto waiter = client();
  std::vector<Error> seen;
  std::thread waiting([&] {
    const std::vector<Awaited> keys = {{"slow", "slow's end"}, {"there", "its end"}, {"theirs", "gone"}};
    seen.push_back(caught([&] { waiter->set_and_wait("there", "here", keys, soon()); }));
  });
  client()->wait("there", soon());
  client()->set_once("its end", departure_text(1, "rank 1 has ended"));  // ignored, because rank 1 has set its key
  client()->set_once("gone", departure_text(2, "rank 2 has ended"));
  waiting.join();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].culprit(), 2);
  client()->set("slow", "now");
  EXPECT_EQ(waiter->wait("slow", soon()), "now");
}

TEST_P(StoreContract, TheKeysOfAJobKeepTheirPlaceInEveryView) {
  const auto root = client();
  const auto job = make_job_store(root, "job"), inside = make_prefix_store(make_prefix_store(job, "shm"), "0");
  job->set(departure_key(3), departure_text(3, "rank 3 was killed"));
  EXPECT_EQ(root->wait("job/gone/3", soon()), "3 rank 3 was killed");
  const Error error = caught([&] { inside->wait_unless("card/3", departure_key(3), soon()); });
  EXPECT_EQ(error.culprit(), 3);
  std::string value;
  EXPECT_TRUE(inside->find(departure_key(3), value));
  EXPECT_FALSE(inside->find(departure_key(2), value));
  EXPECT_FALSE(make_job_store(root, "next")->find(departure_key(3), value));  // another job in the same store
}

TEST_P(StoreContract, CountersAreAtomic) {
  constexpr int threads = 4, rounds = 50;
  std::vector<std::thread> adders;
  for (int t = 0; t < threads; ++t)
    adders.emplace_back([store = client()] {
      for (int i = 0; i < rounds; ++i) store->add("counter", 3);
    });
  for (auto& thread : adders) thread.join();
  EXPECT_EQ(client()->add("counter", -1), threads * rounds * 3 - 1);
  EXPECT_EQ(client()->wait("counter", soon()), std::to_string(threads * rounds * 3 - 1));
}

TEST_P(StoreContract, AddRefusesWhatIsNoCounter) {
  auto store = client();
  store->set("text", "12 apples");
  const Error error = caught([&] { store->add("text", 1); });
  EXPECT_EQ(error.code(), Code::invalid);
  EXPECT_NE(std::string(error.what()).find("text'"), std::string::npos) << error.what();
  EXPECT_EQ(store->wait("text", soon()), "12 apples");
}

TEST_P(StoreContract, SetOnceHasOneWinner) {
  constexpr int threads = 4, rounds = 20;
  std::vector<std::vector<std::string>> won(threads);
  std::vector<std::thread> setters;
  for (int t = 0; t < threads; ++t)
    setters.emplace_back([store = client(), t, &won] {
      for (int i = 0; i < rounds; ++i)
        won[t].push_back(store->set_once("once" + std::to_string(i), "thread " + std::to_string(t)));
    });
  for (auto& thread : setters) thread.join();
  for (int t = 1; t < threads; ++t) EXPECT_EQ(won[t], won[0]);
}

TEST_P(StoreContract, EraseForgets) {
  auto store = client();
  std::string value;
  store->erase("never there");
  store->set("key", "one");
  store->erase("key");
  EXPECT_FALSE(client()->find("key", value));
  EXPECT_EQ(store->set_once("key", "two"), "two");
  store->erase("key");
  EXPECT_EQ(store->add("key", 5), 5);
}

}  // namespace tutti::testing
