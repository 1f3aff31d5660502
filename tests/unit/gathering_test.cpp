// Gathering: every rank gets the texts of all ranks with a fixed number of requests to the store, and all ranks are
// told which rank is missing.
#include "collectives/bootstrap/gathering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "collectives/bootstrap/served_store.hpp"
#include "tests/support/counting_store.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

using ::testing::HasSubstr;

Text text_of(int rank) { return {"rank " + std::to_string(rank), "host " + std::to_string(rank / 8)}; }

Gatherers gatherers(int rank, int size, std::shared_ptr<Store> store, int fan_out, Seconds patience = Seconds(20)) {
  Gatherers who;
  who.rank = rank;
  who.size = size;
  who.one_host = true;
  who.store = std::move(store);
  who.secret = "secret";
  who.patience = patience.count();
  who.until = deadline_in(patience);
  who.fan_out = fan_out;
  return who;
}

void expect_all(const Texts& texts, int size) {
  ASSERT_EQ(static_cast<int>(texts.size()), size);
  for (int rank = 0; rank < size; ++rank) {
    ASSERT_EQ(texts.own(rank), text_of(rank).own);
    ASSERT_EQ(texts.shared(rank), text_of(rank).shared);
  }
}

TEST(Branch, MakesATreeOfRuns) {
  for (const int fan_out : {1, 2, 3, 8, 64})
    for (int size = 1; size <= (fan_out == 1 ? 9 : 150); ++size) {
      std::vector<int> heights(static_cast<std::size_t>(size));
      for (int rank = size - 1; rank >= 0; --rank) {
        const Branch at = branch_of(rank, size, fan_out);
        ASSERT_LE(static_cast<int>(at.children.size()), fan_out);
        int height = 0, next = rank + 1;
        for (const int child : at.children) {
          const Branch below = branch_of(child, size, fan_out);
          ASSERT_EQ(child, next);
          ASSERT_EQ(below.parent, rank);
          ASSERT_EQ(below.depth, at.depth + 1);
          height = std::max(height, 1 + heights[static_cast<std::size_t>(child)]);
          next = below.end;
        }
        ASSERT_EQ(next, at.end) << rank << " of " << size;
        ASSERT_EQ(at.height, height) << rank << " of " << size << " with " << fan_out;
        heights[static_cast<std::size_t>(rank)] = height;
        ASSERT_EQ(at.parent < 0, rank == 0);
      }
      ASSERT_EQ(branch_of(0, size, fan_out).end, size);
    }
  EXPECT_EQ(branch_of(0, 65, 64).height, 1);
  EXPECT_EQ(branch_of(0, 4161, 64).height, 2);
  EXPECT_EQ(branch_of(0, 65536, 64).height, 3);
}

/// Runs all ranks as threads. Returns each rank's error, or nothing if it got all texts.
std::vector<std::optional<Error>> gather_in_threads(int size, const std::shared_ptr<Store>& store, int fan_out,
                                                    Seconds patience = Seconds(20), int absent = -1) {
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    if (rank != absent)
      threads.emplace_back([&, rank] {
        try {
          Gathering gathering(gatherers(rank, size, store, fan_out, patience));
          for (const char* const name : {"cards", "addresses"})
            expect_all(gathering.exchange(name, text_of(rank)), size);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error;
        }
      });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Gathering, EveryRankLearnsEveryText) {
  for (const int size : {2, 3, 9, 40}) {
    TcpStoreServer server("127.0.0.1", 0, "secret");
    const auto client = connect_tcp_store("127.0.0.1", server.port(), "secret", deadline_in(Seconds(10)));
    for (const auto& error : gather_in_threads(size, client, 3)) EXPECT_FALSE(error) << error->what();
    for (const auto& error : gather_in_threads(size, make_local_store(), 3)) EXPECT_FALSE(error) << error->what();
  }
}

TEST(Gathering, WithoutASecretAllAskTheStore) {
  TcpStoreServer server("127.0.0.1", 0, "");
  const auto client = connect_tcp_store("127.0.0.1", server.port(), "", deadline_in(Seconds(10)));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 13; ++rank)
    threads.emplace_back([&, rank] {
      Gatherers who = gatherers(rank, 13, client, 3);
      who.secret.clear();
      expect_all(Gathering(std::move(who)).exchange("cards", text_of(rank)), 13);
    });
  for (std::thread& thread : threads) thread.join();
}

// A text that is longer than the store's largest value is sent in parts.
TEST(Gathering, TellsMoreThanAValueHolds) {
  const auto store = make_local_store();
  const std::string large(400'000, 'x');
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 9; ++rank)
    threads.emplace_back([&, rank] {
      const Texts texts = Gathering(gatherers(rank, 9, store, 2)).exchange("cards", {std::to_string(rank) + large, ""});
      EXPECT_EQ(texts.own(8), "8" + large);
    });
  for (std::thread& thread : threads) thread.join();
}

// The cost if one thread plays all ranks: first the texts go up from the leaves, then the answer comes down.
struct Cost {
  double requests = 0, bytes = 0;  // of the store, divided by the number of ranks
};
Cost cost_of_gathering(int size, bool one_server, int fan_out = 64) {
  auto counting = std::make_shared<testing::CountingStore>(make_local_store(), one_server);
  std::vector<std::unique_ptr<Gathering>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Gathering>(gatherers(rank, size, counting, fan_out)));
  for (int rank = size - 1; rank >= 0; --rank) ranks[static_cast<std::size_t>(rank)]->give("cards", text_of(rank));
  for (int rank = 0; rank < size; ++rank) {
    const Texts texts = ranks[static_cast<std::size_t>(rank)]->take("cards");
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(texts.own(size - 1), text_of(size - 1).own);
  }
  while (!ranks.empty()) ranks.pop_back();  // children first, because their parents wait for them
  return {static_cast<double>(counting->requests) / size, static_cast<double>(counting->bytes) / size};
}

TEST(Gathering, AsksTheStoreForAFixedNumberOfThingsPerRank) {
  for (const int size : {64, 1024, 4096}) {
    const Cost through_the_store = cost_of_gathering(size, false);
    EXPECT_LE(through_the_store.requests, 4) << size;
  }
}

// Ranks that have children serve the answer to them, so the store sends it to few ranks.
TEST(Gathering, TheStoreSendsTheAnswerToFewRanksAlone) {
  for (const int size : {64, 512, 1024}) {
    const Cost cost = cost_of_gathering(size, true, 8);
    EXPECT_LE(cost.requests, 5) << size;
    const double text = 16;                             // bytes of one rank's text in the answer
    EXPECT_LE(cost.bytes, text * (8 + 4 * 4)) << size;  // 8 for the root's children, 4 for each of at most four levels
  }
}

// Ranks come in any order: parents before and after their children.
TEST(Gathering, WaitsForThoseThatComeLater) {
  std::mt19937 random(7);
  for (int time = 0; time < 3; ++time) {
    TcpStoreServer server("127.0.0.1", 0, "secret");
    const auto client = connect_tcp_store("127.0.0.1", server.port(), "secret", deadline_in(Seconds(10)));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 25; ++rank)
      threads.emplace_back([&, rank, delay = std::chrono::milliseconds(random() % 100)] {
        std::this_thread::sleep_for(delay);
        expect_all(Gathering(gatherers(rank, 25, client, 2)).exchange("cards", text_of(rank)), 25);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

/// A store that gives the ranks below rank 1 another address for rank 1's server.
class LinkElsewhere : public testing::CountingStore {
 public:
  LinkElsewhere(std::shared_ptr<Store> inner, const Endpoint& where)
      : CountingStore(std::move(inner), true), card_(to_text(StoreCard{{}, {where}})) {}

  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    if (key == "tree/link/1") return ++told, card_;
    return CountingStore::wait_unless(key, unless, until);
  }
  std::atomic<int> told = 0;

 private:
  const std::string card_;
};

TEST(Gathering, AsksTheJobsStoreWhereTheRankAboveIsNotReached) {
  TcpStoreServer nobody("127.0.0.1", 0, "secret"), strangers("127.0.0.1", 0, "another secret");
  TcpStoreServer another("127.0.0.1", 0, "secret");  // like another rank's server at an address that every host has
  connect_tcp_store("127.0.0.1", another.port(), "secret", deadline_in(Seconds(10)))->set("rank", "2");
  for (const int port : {nobody.port(), strangers.port(), another.port(), 1}) {
    const auto store = std::make_shared<LinkElsewhere>(make_local_store(), Endpoint{"127.0.0.1", port});
    for (const auto& error : gather_in_threads(13, store, 3)) EXPECT_FALSE(error) << error->what();
    EXPECT_EQ(store->told, 3) << port;
  }
}

// The rank above has the answer and leaves before it has passed it on.
TEST(Gathering, AsksTheJobsStoreWhereTheRankAboveGoes) {
  auto above = std::make_unique<TcpStoreServer>("127.0.0.1", 0, "secret");
  connect_tcp_store("127.0.0.1", above->port(), "secret", deadline_in(Seconds(10)))->set("rank", "1");
  const auto store = std::make_shared<LinkElsewhere>(make_local_store(), Endpoint{"127.0.0.1", above->port()});
  std::thread goes([&] {
    for (int i = 0; i < 2000 && store->told < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the ranks are connected and wait
    above.reset();
  });
  for (const auto& error : gather_in_threads(13, store, 3)) EXPECT_FALSE(error) << error->what();
  goes.join();
}

TEST(Gathering, NamesARankThatEndedToAll) {
  const auto store = make_local_store();
  store->set(departure_key(7), departure_text(7, "rank 7 (pid 17) was killed"));
  const auto errors = gather_in_threads(13, store, 3, Seconds(20), 7);
  for (int rank = 0; rank < 13; ++rank) {
    if (rank == 7) continue;
    const auto& error = errors[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error) << rank;
    EXPECT_EQ(error->code(), Code::peer_lost) << rank;
    EXPECT_EQ(error->culprit(), 7) << rank << ": " << error->what();
    EXPECT_THAT(error->what(), HasSubstr("rank 7 (pid 17) was killed"));
  }
}

TEST(Gathering, NamesARankThatDoesNotComeToAll) {
  for (const int absent : {0, 1, 12}) {  // the root, a rank with children, a leaf
    TcpStoreServer server("127.0.0.1", 0, "secret");
    const auto client = connect_tcp_store("127.0.0.1", server.port(), "secret", deadline_in(Seconds(10)));
    const auto errors = gather_in_threads(13, client, 3, Seconds(0.5), absent);
    for (int rank = 0; rank < 13; ++rank) {
      if (rank == absent) continue;
      const auto& error = errors[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(error) << rank;
      EXPECT_EQ(error->code(), Code::timeout) << rank;
      EXPECT_THAT(error->what(), HasSubstr("rank " + std::to_string(absent) + " has not joined the others in 0.5 s"))
          << rank;
    }
  }
}

}  // namespace
}  // namespace tutti::launchers
