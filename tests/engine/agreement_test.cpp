// When ranks meet, they learn what one of them was asked for, and exchange the losses of their steps.
#include "engine/loop/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "engine/loop/step_losses.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

using testing::run_ranks;
using testing::test_settings;

TEST(Agreement, AllRanksDoAtOneMeetingAndOnceWhatOneOfThemIsAskedFor) {
  std::vector<std::vector<Wish>> found(3);
  run_ranks(3, test_settings("inproc"), [&](Communicator& world) {
    Agreement agreement(world);
    std::vector<Wish>& mine = found[static_cast<std::size_t>(world.rank())];
    for (int i = 0; mine.empty() || mine.back() < Wish::time_is_over; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const bool is_second = std::ranges::count(mine, Wish::checkpoint) > 0 && world.rank() < 2;
      Wish wish = i == 3 && world.rank() == 2 ? Wish::checkpoint : Wish::nothing;
      if (is_second) wish = world.rank() == 0 ? Wish::end : Wish::time_is_over;
      mine.push_back(agreement.meet(wish, true));
    }
    agreement.end();
  });
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
  EXPECT_EQ(std::ranges::count(found[0], Wish::checkpoint), 1);
  EXPECT_EQ(found[0].back(), Wish::end);
}

TEST(Agreement, AWishArrivesWithinTwoMeetingsThatAreRare) {
  std::atomic<int> heard = 0;
  run_ranks(2, test_settings("inproc"), [&](Communicator& world) {
    Agreement agreement(world);
    std::vector<Wish> found;
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      found.push_back(agreement.meet(i == 1 && world.rank() == 1 ? Wish::end : Wish::nothing, true));
    }
    agreement.end();
    if (found == std::vector{Wish::nothing, Wish::nothing, Wish::end, Wish::nothing}) ++heard;
  });
  EXPECT_EQ(heard, 2);
}

TEST(Agreement, RanksThatDoNotExchangeMayBeAheadOfOthers) {
  constexpr int meetings = 100;
  std::atomic<int> ahead = 0, heard = 0;
  run_ranks(2, test_settings("inproc"), [&](Communicator& world) {
    Agreement agreement(world);
    for (int i = 0; i < 300; ++i) agreement.meet(Wish::nothing, true);  // tells Agreement that steps are short
    if (world.rank() == 0)
      for (int i = 0; i < meetings; ++i) agreement.meet(i == 0 ? Wish::end : Wish::nothing, false);
    if (world.rank() == 0) ahead = meetings;
    if (world.rank() == 1) {
      EXPECT_TRUE(testing::comes_true([&] { return ahead == meetings; }));
      for (int i = 0; i < meetings; ++i) agreement.meet(Wish::nothing, false);
    }
    Wish found = Wish::nothing;
    while (found == Wish::nothing) found = agreement.meet(Wish::nothing, true);
    agreement.end();
    if (found == Wish::end) ++heard;
  });
  EXPECT_EQ(heard, 2);
}

TEST(Agreement, OneRankHearsItsOwnWishAtOnce) {
  run_ranks(1, test_settings("inproc"), [](Communicator& world) {
    Agreement agreement(world);
    EXPECT_EQ(agreement.meet(Wish::checkpoint, true), Wish::checkpoint);
    EXPECT_TRUE(agreement.heard());
    EXPECT_EQ(agreement.meet(Wish::nothing, true), Wish::nothing);
  });
}

/// Returns the sums of the losses of `steps` steps, exchanged after each step in `after` and at the end.
std::vector<StepLosses::Sum> exchanged(Communicator& world, std::size_t grains, std::size_t steps,
                                       const std::vector<std::size_t>& after) {
  StepLosses losses(world, grains);
  std::vector<StepLosses::Sum> found;
  const auto take = [&] {
    for (const StepLosses::Sum& each : losses.finish()) found.push_back(each);
    losses.start();
  };
  for (std::size_t step = 0; step < steps; ++step) {
    const std::span<double> mine = losses.begin();
    const auto rank = static_cast<std::size_t>(world.rank());
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (grains == 0 || i % static_cast<std::size_t>(world.size()) == rank)
        mine[i] = 0.1 * static_cast<double>(1 + step) + 1e-17 * static_cast<double>(rank + i);
    losses.end(10 + step, 8);
    if (std::ranges::count(after, step) > 0) take();
  }
  take();
  take();
  return found;
}

TEST(StepLosses, SumsDoNotDependOnWhenTheyAreExchanged) {
  const auto play = [](Communicator& world, std::size_t steps) {
    for (const std::size_t grains : {0U, 4U}) {
      const std::vector<StepLosses::Sum> all = exchanged(world, grains, steps, {});
      ASSERT_EQ(all.size(), steps);
      for (const std::vector<std::size_t>& after : {std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {2}, {1, 4}}) {
        const std::vector<StepLosses::Sum> parts = exchanged(world, grains, steps, after);
        ASSERT_EQ(parts.size(), steps);
        for (std::size_t i = 0; i < steps; ++i) {
          EXPECT_EQ(parts[i].step, 10 + i);
          EXPECT_EQ(parts[i].samples, 8);
          EXPECT_EQ(parts[i].total, all[i].total);
          EXPECT_NEAR(parts[i].total, (grains == 0 ? world.size() : 4) * 0.1 * static_cast<double>(1 + i), 1e-8);
        }
      }
    }
  };
  run_ranks(3, test_settings("inproc"), [&](Communicator& world) { play(world, 7); });
  // With more ranks than are gathered at once, and so many steps that the selector would choose another algorithm.
  run_ranks(70, test_settings("inproc"), [&](Communicator& world) { play(world, 5000); });
}

TEST(StepLosses, NaNOfOneRankIsKnownToAll) {
  run_ranks(2, test_settings("inproc"), [](Communicator& world) {
    StepLosses losses(world, 0);
    losses.begin()[0] = world.rank() == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
    losses.end(0, 4);
    losses.start();
    EXPECT_TRUE(std::isnan(losses.finish().at(0).total));
    EXPECT_TRUE(losses.finish().empty());
  });
}

}  // namespace
}  // namespace tutti::engine
