// When a waiting rank concludes that other programs use its cores. The test provides the kernel's counts and the
// time.
#include "collectives/runtime/crowding.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using namespace std::chrono_literals;

class CrowdingTest : public ::testing::Test {
 protected:
  /// Looks `times` times, at the shortest interval, while `runnable` threads want a core.
  void look(int times, int runnable) {
    runnable_ = runnable;
    for (int i = 0; i < times; ++i) crowding_.look(now_ += Crowding::look_interval);
  }

  int runnable_ = 0, counted_ = 0;
  Crowding crowding_{2, 2, 2, [this] { return ++counted_, runnable_; }};
  Clock::time_point now_ = Clock::now();
};

TEST_F(CrowdingTest, RanksThatHaveTheirCoresToThemselvesAreNotCrowded) {
  look(1000, 2);
  EXPECT_FALSE(crowding_.seen());
  EXPECT_EQ(counted_, 1000);
}

TEST_F(CrowdingTest, ANeighbourWhoComesIsSeenAfterFourLooks) {
  look(1, 2);
  look(3, 3);
  EXPECT_FALSE(crowding_.seen());
  look(1, 3);
  EXPECT_TRUE(crowding_.seen());
}

TEST_F(CrowdingTest, ANeighbourWhoIsThereIsSeenAtOnce) {
  look(1, 3);
  EXPECT_TRUE(crowding_.seen());
  look(4, 2);
  EXPECT_TRUE(crowding_.seen());
  look(1, 2);
  EXPECT_FALSE(crowding_.seen());
}

TEST_F(CrowdingTest, RanksThatOutnumberTheirCoresUseOneAnothersTime) {
  for (const int cores : {2, 64}) {  // cores of the machine, of which the ranks may use two
    Crowding many{cores, 2, 4, [this] { return runnable_; }};
    runnable_ = 4;
    many.spent(3ms, now_);
    many.look(now_ += Crowding::look_interval);
    EXPECT_FALSE(many.seen()) << cores;
  }
}

TEST_F(CrowdingTest, TheFirstLookOfManyRanksIsOneOfFour) {
  Crowding many{2, 2, 4, [this] { return runnable_; }};
  runnable_ = 5;
  for (int i = 1; i <= Crowding::learns_by; ++i) {
    EXPECT_FALSE(many.seen()) << i;
    many.look(now_ += Crowding::look_interval);
  }
  EXPECT_TRUE(many.seen());
}

TEST_F(CrowdingTest, ADaemonThatWakesUpForAMomentIsNoNeighbour) {
  look(1, 2);
  for (int i = 0; i < 100; ++i) {
    look(3, 3);
    EXPECT_FALSE(crowding_.seen());
    look(8, 2);
  }
}

TEST_F(CrowdingTest, ANeighbourThatLeavesIsForgotten) {
  look(100, 6);
  look(27, 1);
  EXPECT_TRUE(crowding_.seen());
  look(1, 1);
  EXPECT_FALSE(crowding_.seen());
}

TEST_F(CrowdingTest, NeighboursThatAreSeenInSomeLooksAreNotForgotten) {
  look(10, 3);
  for (int i = 0; i < 100; ++i) {
    look(1, 3);
    look(5, 2);  // sleeping ranks hide that other programs want to run
    EXPECT_TRUE(crowding_.seen());
  }
}

TEST_F(CrowdingTest, TheKernelIsAskedOncePerInterval) {
  for (int i = 0; i < 1000; ++i) crowding_.look(now_ + i * 1us);
  EXPECT_EQ(counted_, 4);
}

TEST_F(CrowdingTest, ALostTimeSliceIsASignOfItsOwn) {
  look(100, 1);  // few threads run, as the ranks may use only a part of the cores
  crowding_.spent(500us, now_);
  EXPECT_FALSE(crowding_.seen());
  crowding_.spent(3ms, now_);
  EXPECT_TRUE(crowding_.seen());
  look(39, 1);
  EXPECT_TRUE(crowding_.seen());
  look(1, 1);
  EXPECT_FALSE(crowding_.seen());
}

TEST_F(CrowdingTest, TimeSlicesThatAreLostAgainAreRememberedForLonger) {
  std::vector<int> looks;
  for (int round = 0; round < 9; ++round) {
    crowding_.spent(3ms, now_);
    for (looks.push_back(0); crowding_.seen(); ++looks.back()) look(1, 1);
  }
  EXPECT_EQ(looks, (std::vector{40, 80, 160, 320, 640, 1280, 2560, 2560, 2560}));
  now_ += 2 * Crowding::longest_memory;  // the other programs have stayed away
  crowding_.spent(3ms, now_);
  look(39, 1);
  EXPECT_TRUE(crowding_.seen());
  look(1, 1);
  EXPECT_FALSE(crowding_.seen());
}

// A quota lets the rank run for a part of each 100 ms. A spin ends when the part is used up.
TEST_F(CrowdingTest, AQuotaIsRememberedForManyOfItsPeriods) {
  for (const auto runs : {20ms, 50ms, 75ms}) {
    Crowding crowding{2, 2, 2, [] { return 2; }};
    int spins = 0, sleeps = 0;  // periods in which it used up its quota, and others
    for (int period = 0; period < 100; ++period) {
      const auto ends = now_ + 100ms, throttled = now_ + runs;
      while (crowding.seen() && now_ < ends) crowding.look(now_ += Crowding::look_interval);
      if (now_ < throttled) {
        ++spins;
        now_ = ends;
        crowding.spent(100ms - runs, now_);
      } else {
        ++sleeps;
        now_ = ends;
      }
    }
    EXPECT_LE(spins, 25) << runs / 1ms << " ms; it slept in " << sleeps;
  }
}

TEST(RunnableThreads, CountsThoseThatRun) {
  const RunnableThreads runnable;
  if (runnable.count() == 0) GTEST_SKIP() << "/proc/loadavg tells nothing here";
  std::atomic<bool> stop = false;
  std::vector<std::jthread> busy;
  for (int i = 0; i < 5; ++i)
    busy.emplace_back([&] {
      while (!stop.load()) {
      }
    });
  int most = 0;
  for (int i = 0; i < 1000 && most < 6; ++i, std::this_thread::sleep_for(1ms)) most = std::max(most, runnable.count());
  stop = true;
  EXPECT_GE(most, 5);
}

}  // namespace
}  // namespace tutti
