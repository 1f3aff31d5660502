// Reports: phases that add up, comparison of clocks, and waits that are attributed to the rank that came last.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/loop/run_folder.hpp"
#include "engine/report/forecast.hpp"
#include "engine/report/report.hpp"
#include "engine/report/step_times.hpp"
#include "tests/support/contents.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds ms = 1'000'000;

/// A clock that goes only where a test moves it.
struct FakeClock {
  Nanoseconds now = 1000 * ms;
  PhaseClock::Now read() {
    return [this] { return now; };
  }
};

TEST(Phases, AddUpToTheTimeThatPassed) {
  FakeClock time;
  PhaseClock clock(time.read());
  time.now += 5 * ms;
  clock.start(Phase::load);
  const Nanoseconds begin = time.now;
  std::vector<std::pair<Phase, Nanoseconds>> heard;
  Nanoseconds end_of_last = begin;
  clock.listen([&](Phase phase, Nanoseconds from, Nanoseconds to) {
    EXPECT_EQ(from, end_of_last);
    end_of_last = to;
    heard.emplace_back(phase, to - from);
  });
  time.now += 3 * ms;
  EXPECT_EQ(clock.enter(Phase::compute), Phase::load);
  time.now += 20 * ms;
  EXPECT_EQ(clock.enter(Phase::exchange, 7 * ms), Phase::compute);  // the exchange began 7 ms ago
  EXPECT_EQ(clock.began(), begin + 16 * ms);
  time.now += 1 * ms;
  clock.enter(Phase::compute, 100 * ms);  // begins with the exchange, not earlier
  time.now += 2 * ms;
  clock.enter(Phase::other);
  EXPECT_EQ(clock.spent(Phase::load), 3 * ms);
  EXPECT_EQ(clock.spent(Phase::compute), (13 + 10) * ms);
  EXPECT_EQ(clock.spent(Phase::exchange), 0);
  EXPECT_EQ(clock.spent(Phase::load) + clock.spent(Phase::compute), time.now - begin);
  EXPECT_THAT(heard, ElementsAre(std::pair(Phase::load, 3 * ms), std::pair(Phase::compute, 13 * ms),
                                 std::pair(Phase::exchange, 0 * ms), std::pair(Phase::compute, 10 * ms)));
}

void with_ranks(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("shm"), body);
}

TEST(Waits, AreBookedToWhoCameLast) {
  with_ranks(3, [](Communicator& world) {
    const Arrival arrivals[3][2] = {
        {{.came = 0, .blocked = 40 * ms}, {.came = 100 * ms, .blocked = ms}},  // first waits 30 ms for rank 1
        {{.came = 30 * ms, .blocked = 9 * ms}, {.came = 100 * ms, .blocked = ms}},
        {{.came = 10 * ms, .blocked = 12 * ms}, {.came = 100 * ms, .blocked = ms}}};  // not more than it was blocked
    const WaitRow row = book(world, arrivals[world.rank()]);
    const double expected[] = {0.030, 0, 0.012};
    EXPECT_DOUBLE_EQ(row.at(1), expected[world.rank()]);
    EXPECT_EQ(row.at(0), 0) << "in the second exchange nobody is late";
    EXPECT_EQ(row.size(), 2U);
  });
}

TEST(Waits, TheWorstTenAreNamed) {
  std::vector<WaitedFor> all;
  for (int rank = 0; rank < 100; ++rank) all.push_back({rank, rank % 50 == 7 ? 9.0 : 0.01 * rank});
  const std::vector<WaitedFor> found = most_waited_for(all);
  ASSERT_EQ(found.size(), most_named);
  EXPECT_EQ(found[0], (WaitedFor{7, 9}));
  EXPECT_EQ(found[1], (WaitedFor{57, 9}));
  for (std::size_t i = 2; i < most_named; ++i) EXPECT_EQ(found[i].rank, 90 + static_cast<int>(i));
  for (const int size : {1, 2, 3, 7, 16, 21})
    with_ranks(size, [](Communicator& world) {
      std::vector<PairWait> mine;
      for (int i = 0; i < 12; ++i) mine.push_back({i, world.rank(), 100.0 * i + world.rank()});
      const std::vector<PairWait> pairs = worst_of_all(world, mine);
      if (world.rank() != 0) {
        EXPECT_TRUE(pairs.empty());
        return;
      }
      ASSERT_EQ(pairs.size(), most_named);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const int place = static_cast<int>(i), ranks = world.size();
        EXPECT_EQ(pairs[i].late, 11 - place / ranks);
        EXPECT_EQ(pairs[i].waiting, ranks - 1 - place % ranks);
      }
    });
}

TEST(Tree, MeetsEachRankOnceInRoundsThatGrowAsTheLogarithm) {
  for (const int size : {1, 2, 3, 5, 8, 64, 1000, 1024, 8192, 65536}) {
    const Tree tree{size};
    EXPECT_EQ(tree.rounds(), static_cast<int>(std::ceil(std::log2(size)))) << size;
    std::vector<int> parents(static_cast<std::size_t>(size));
    std::int64_t meetings = 0;
    for (int rank = 0; rank < size; ++rank) {
      meetings += tree.meetings(rank);
      EXPECT_LE(tree.meetings(rank), std::max(tree.rounds(), 1));
      EXPECT_LE(clock_messages(rank, size), 16 * tree.rounds());
      for (int round = 0; round < tree.rounds(); ++round)
        if (const int child = tree.child(rank, round); child >= 0) {
          ASSERT_EQ(Tree::parent(child), rank);
          ASSERT_EQ(Tree::round_of(child), round);
          ASSERT_GT(round, Tree::round_of(rank)) << "it has not met its own parent";
          ++parents[static_cast<std::size_t>(child)];
        }
    }
    EXPECT_EQ(meetings, 2 * (size - 1));
    EXPECT_EQ(std::count(parents.begin(), parents.end(), 1), size - 1);
  }
}

TEST(Clocks, AreComparedToWithinWhatIsSaid) {
  with_ranks(7, [](Communicator& world) {
    const Nanoseconds ahead = world.rank() * 5'000'000 * ms;  // its clock is 5000 s ahead per rank
    const ClockOffset found = compare_clocks(world, [ahead] { return steady_now() + ahead; });
    EXPECT_LE(std::abs(found.ahead - ahead), found.error);
    EXPECT_LT(found.error, 60'000 * ms);
    EXPECT_EQ(compare_clocks(world).ahead, 0);  // all ranks use the same clock
  });
}

// Each rank has a simulated clock, which is hours ahead of rank 0's. Rank 1 comes 30 ms late to each of 2000 exchanges,
// which then take 4 ms.
TEST(StepTimes, AnInjectedDelayIsBookedToItsRank) {
  with_ranks(3, [](Communicator& world) {
    const bool late = world.rank() == 1;
    FakeClock time;
    time.now += world.rank() * 10'000'000 * ms;
    StepTimes times{PhaseClock(time.read())};
    times.synchronize(world);
    EXPECT_EQ(times.offset().ahead, world.rank() * 10'000'000 * ms);
    times.start();
    const Nanoseconds begin = time.now;
    for (int step = 0; step < 2000; ++step) {
      times.clock().enter(Phase::load);
      time.now += 2 * ms;
      times.clock().enter(Phase::compute);
      time.now += 10 * ms;
      if (late) {
        times.clock().enter(Phase::other);
        time.now += 30 * ms;
        times.clock().enter(Phase::compute);
      }
      const Nanoseconds blocked = (late ? 4 : 34) * ms;
      time.now += blocked;
      times.exchanged(1e-9 * static_cast<double>(blocked));
      time.now += 1 * ms;
      times.clock().enter(Phase::other);
    }
    times.stop();
    const auto [mean, waited_for, pairs] = times.gather(world);
    ASSERT_EQ(waited_for.size(), 3U);
    EXPECT_NEAR(waited_for[1].seconds, 40, 1e-9);
    EXPECT_EQ(waited_for[0].seconds + waited_for[2].seconds, 0);
    if (world.rank() == 0) {
      ASSERT_EQ(pairs.size(), 2U);
      for (const PairWait& each : pairs) {
        EXPECT_EQ(each.late, 1);
        EXPECT_NEAR(each.seconds, 60, 1e-9);
      }
    }
    EXPECT_NEAR(mean.load, 4, 1e-9);
    EXPECT_NEAR(mean.compute, 22, 1e-9);
    EXPECT_NEAR(mean.communication, 8, 1e-9);
    EXPECT_NEAR(mean.waiting, 40, 1e-9);
    EXPECT_NEAR(mean.other, 20, 1e-9);
    EXPECT_NEAR(mean.wall(), 1e-9 * static_cast<double>(time.now - begin), 1e-9);
  });
}

// Ranks that exchange independently do not wait for one another; the time in which they are blocked is communication.
TEST(StepTimes, RanksThatExchangeByThemselvesWaitForNobody) {
  with_ranks(2, [](Communicator& world) {
    FakeClock time;
    StepTimes times{PhaseClock(time.read())};
    times.start();
    for (int i = 0; i <= world.rank(); ++i) {
      time.now += 2 * ms;
      times.exchanged(0.002);
    }
    times.stop();
    const auto [mean, waited_for, pairs] = times.gather(world);
    EXPECT_EQ(mean.waiting, 0);
    EXPECT_NEAR(mean.communication, 0.003, 1e-12);
  });
}

TEST(Forecast, HidesWhatBackwardCanHide) {
  const Link link{.latency = 0.001, .bytes_per_second = 1e6};
  EXPECT_DOUBLE_EQ(ring_bytes(4000, 4), 6000);
  EXPECT_DOUBLE_EQ(ring_seconds(4000, 4, link), 6 * 0.001 + 0.006);
  EXPECT_EQ(ring_seconds(4000, 1, link), 0);
  // Three buckets take 12 ms each and are ready after 100, 200 and 300 ms of backward: only the last one is exposed.
  const std::vector<std::size_t> buckets{4000, 4000, 4000};
  const Forecast slow = forecast(buckets, 4, 0.3, link);
  EXPECT_DOUBLE_EQ(slow.communication, 0.036);
  EXPECT_NEAR(slow.exposed, 0.012, 1e-15);
  // They are ready after 3, 6 and 9 ms, and use the link from 3 to 39 ms.
  EXPECT_NEAR(forecast(buckets, 4, 0.009, link).exposed, 0.030, 1e-15);
}

TEST(Forecast, LinksAreRead) {
  const Link link = Link::parse("20us,10Gbit");
  EXPECT_DOUBLE_EQ(link.latency, 20e-6);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 1.25e9);
  EXPECT_EQ(Link::parse("1.5ms,200mb").text(), "1.5e+03 us, 0.2 GB/s");
  EXPECT_EQ(Link::parse("10gbit,20us").text(), link.text());
  for (const char* bad : {"", "20us", "20us,", ",10gbit", "20us,20us", "10gbit,10gbit", "20,10gbit", "20us,10",
                          "-1us,1gbit", "20us,0gbit"})
    EXPECT_THROW(Link::parse(bad), Error) << bad;
}

TEST(Report, SaysWhereARunIs) {
  Standing place{.epoch = 3,
                 .epochs = 40,
                 .step = 12,
                 .steps = 23,
                 .loss = 0.12341,
                 .samples_per_second = 5321.2,
                 .seconds_left = 151.9};
  EXPECT_EQ(shown(place), "epoch 3/40  step 12/23  loss 0.1234  5321 samples/s  2:31 left");
  place.seconds_left = 2 * 3600 + 5;
  EXPECT_THAT(shown(place), HasSubstr("  2:00:05 left"));
}

TEST(Report, NamesTheRankThatOthersWaitFor) {
  EpochResult result;
  result.phases = {.compute = 7, .communication = 1.2, .waiting = 1.3, .load = 0.1, .other = 0.4};
  EXPECT_EQ(shares(result), "compute 70 %, load 1 %, other 4 %");
  result.ranks = 3;
  result.waited_for = {{0, 0.1}, {1, 0.2}, {2, 1.0}};
  EXPECT_EQ(shares(result), "compute 70 %, communication 12 %, waiting 13 % (most for rank 2), load 1 %, other 4 %");
}

TEST(RunFolder, ListsWaitsByEpochWithNullWhereARankWasNotNamed) {
  const testing::TemporaryFolder temporary;
  Config config;
  config.run = (std::filesystem::path(temporary.path()) / "run").string();
  RunState done;
  done.epochs.resize(3);
  done.epochs[1].waited_for = {{4, 0.5}};
  RunFolder(config, 12, {}, false).history(done, {});
  const auto ranks = nlohmann::json::parse(testing::contents(config.run + "/history.json")).at("history");
  EXPECT_EQ(ranks.at("0:0:4").at("waited_for"), nlohmann::json::parse("[null, 0.5, null]"));
  EXPECT_EQ(ranks.at("0:0:0").at("loss").size(), 3U);
}

// With more ranks than a report names, only the ranks that were late are reported.
TEST(Report, TellsOfCommunicationWithOneRankLateOrNone) {
  EpochResult result;
  result.phases = {.compute = 7, .communication = 1.2, .waiting = 1.3, .load = 0.1, .other = 0.4};
  result.ranks = 12;
  result.waited_for = {{7, 1.3}};
  EXPECT_EQ(shares(result), "compute 70 %, communication 12 %, waiting 13 % (most for rank 7), load 1 %, other 4 %");
  result.waited_for = {};
  EXPECT_EQ(shares(result), "compute 70 %, communication 12 %, waiting 13 %, load 1 %, other 4 %");
}

}  // namespace
}  // namespace tutti::engine
