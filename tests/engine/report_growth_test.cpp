// The cost of a report in bytes, calls and entries of a rank, on any number of ranks.
#include <gtest/gtest.h>

#include <functional>

#include "engine/loop/step_losses.hpp"
#include "engine/report/costs.hpp"
#include "engine/report/step_times.hpp"
#include "tests/support/counted_calls.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

using tutti::testing::CallCount;
using tutti::testing::calls_of_this_rank;

constexpr Nanoseconds ms = 1'000'000;

void on_inproc(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("inproc"), body);
}

/// 2,000 exchanges. Ranks 0 and 1 come late in turn.
void play(StepTimes& times, Communicator& world, Nanoseconds& now) {
  times.start();
  for (int step = 0; step < 2000; ++step) {
    const bool late = world.rank() == step % 2;
    now += (late ? 12 : 10) * ms;
    const Nanoseconds blocked = (late ? 1 : 3) * ms;
    now += blocked;
    times.exchanged(1e-9 * static_cast<double>(blocked));
  }
  times.stop();
}

TEST(ReportGrowth, AnEpochIsSummedAndNotGathered) {
  for (const int size : {4, 16, 48})
    on_inproc(size, [](Communicator& world) {
      Nanoseconds now = 0;
      StepTimes times{PhaseClock([&now] { return now; })};
      play(times, world, now);
      const CallCount before = calls_of_this_rank;
      const EpochTimes found = times.gather(world);
      const CallCount used = calls_of_this_rank - before;
      const auto meetings = static_cast<std::size_t>(Tree{world.size()}.meetings(world.rank()));
      // allreduces: is every rank's number of exchanges equal; two for each of two blocks; who was late; phases
      EXPECT_EQ(used.reductions, 1U + 2 * 2 + 1 + 1);
      EXPECT_EQ(used.calls, used.reductions + meetings);
      const std::size_t reduced = epoch_times_bytes(2000, 2), is_child = world.rank() > 0 ? 1 : 0;
      EXPECT_EQ(used.given, reduced + 160 * is_child);
      EXPECT_EQ(used.taken, reduced + 160 * (meetings - is_child));
      EXPECT_EQ(worst_pairs_bytes(world.rank(), world.size()), 160 * meetings);
      EXPECT_LE(found.waited_for.size(), most_named);
      EXPECT_EQ(found.pairs.size(),
                world.rank() == 0 ? std::min<std::size_t>(10, 2 * static_cast<std::size_t>(world.size()) - 2) : 0U);
      EXPECT_NEAR(found.mean.waiting, 4.0 * (world.size() - 1) / world.size(), 1e-9);
    });
}

TEST(ReportGrowth, ClocksAreComparedOnceOnAHostAndInRounds) {
  for (const int size : {4, 16, 48})
    on_inproc(size, [](Communicator& world) {
      StepTimes times;
      const CallCount before = calls_of_this_rank;
      times.synchronize(world);
      EXPECT_EQ((calls_of_this_rank - before).calls,
                static_cast<std::size_t>(clock_messages(world.rank(), world.size())));
      EXPECT_LE((calls_of_this_rank - before).calls, static_cast<std::size_t>(16 * Tree{world.size()}.rounds()));
      const CallCount once = calls_of_this_rank;
      times.synchronize(world);
      EXPECT_EQ((calls_of_this_rank - once).calls, 0U);
    });
}

TEST(ReportGrowth, LossesOfStepsAreReducedOnManyRanks) {
  for (const int size : {4, 64, 70})
    on_inproc(size, [](Communicator& world) {
      StepLosses losses(world, 0);
      for (std::size_t step = 0; step < 100; ++step) {
        losses.begin()[0] = 1;
        losses.end(step, 8);
      }
      const CallCount before = calls_of_this_rank;
      losses.start();
      const std::vector<StepLosses::Sum> found = losses.finish();
      const CallCount used = calls_of_this_rank - before;
      const bool few = world.size() <= 64;
      EXPECT_EQ(used.reductions, few ? 0U : 1U);
      EXPECT_EQ(used.taken, 800U * (few ? static_cast<std::size_t>(world.size()) : 1U));
      ASSERT_EQ(found.size(), 100U);
      EXPECT_EQ(found.back().total, world.size());
    });
}

TEST(ReportGrowth, NothingGrowsAsTheRanks) {
  for (const int size : {64, 1024, 8192, 65536}) {
    std::size_t messages = 0, bytes = 0;
    for (const int rank : {0, 1, size / 2, size - 1}) {
      messages = std::max(messages, static_cast<std::size_t>(clock_messages(rank, size)));
      bytes = std::max(bytes, worst_pairs_bytes(rank, size));
    }
    EXPECT_LE(messages, 16U * 16);
    EXPECT_LE(bytes, 160U * 16);
    EXPECT_LE(epoch_times_bytes(1024, 1024), 21'000U);
    EXPECT_LE(wait_row_entries(1024, static_cast<std::size_t>(size)), 1024U);
  }
}

}  // namespace
}  // namespace tutti::engine
