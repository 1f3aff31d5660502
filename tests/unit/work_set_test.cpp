// WorkSet: each work is reported once, when it ends.
#include "transports/core/work_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/worlds.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::run_ranks;
using testing::test_settings;
using ::testing::UnorderedElementsAre;

std::vector<std::uint64_t> waited(WorkSet& works, double seconds) {
  std::vector<std::uint64_t> ready;
  works.wait(ready, Seconds(seconds));
  return ready;
}

TEST(WorkSet, ReportsWhatHasEndedBeforeItWasAdded) {
  WorkSet works;
  works.add({}, 7);
  works.add({}, 8);
  EXPECT_THAT(waited(works, 10), ElementsAre(7, 8));
  EXPECT_THAT(waited(works, 0), IsEmpty());
}

TEST(WorkSet, ReportsEachOfManyOnceWhenItEnds) {
  constexpr int others = 500, rounds = 40;
  run_ranks(2, test_settings("inproc"), [&](Communicator& world) {
    std::vector<int> values(others);
    if (world.rank() == 1) {
      for (int round = 0; round < rounds; ++round) {
        int go = 0;
        world.recv(Buffer(&go, 1), 0, others).wait();
        world.send(ConstBuffer(&round, 1), 0, round * 7 % others).wait();
      }
      world.barrier().wait();  // leaving earlier would fail the others' receives
      return;
    }
    WorkSet works;
    std::vector<Work> receives;
    for (int i = 0; i < others; ++i) {
      receives.push_back(world.recv(Buffer(&values[static_cast<std::size_t>(i)], 1), 1, i));
      works.add(receives.back(), static_cast<std::uint64_t>(i));
    }
    EXPECT_THAT(waited(works, 0), IsEmpty());
    for (int round = 0; round < rounds; ++round) {
      const int go = 1;
      world.send(ConstBuffer(&go, 1), 1, others).wait();
      const auto at = static_cast<std::size_t>(round * 7 % others);
      ASSERT_THAT(waited(works, 30), ElementsAre(at));
      EXPECT_EQ(values[at], round);
    }
    for (const Work& one : receives) (void)one.cancel();
    EXPECT_EQ(waited(works, 30).size(), static_cast<std::size_t>(others - rounds));
    world.barrier().wait();
  });
}

// Each of several jobs in one process has its own context, and all of them must make progress.
TEST(WorkSet, WaitsForSeveralJobs) {
  run_ranks(2, test_settings("inproc"), [&](Communicator& first) {
    run_ranks(1, test_settings("inproc"), [&](Communicator& second) {
      int value = 0, other = 0;
      if (first.rank() == 1) {
        const int sent = 5;
        first.send(ConstBuffer(&sent, 1), 0, 1).wait();
        first.barrier().wait();
        return;
      }
      WorkSet works;
      const Work one = first.recv(Buffer(&value, 1), 1, 1);
      const Work two = second.recv(Buffer(&other, 1), 0, 1);
      works.add(one, 1);
      works.add(two, 2);
      EXPECT_THAT(waited(works, 30), ElementsAre(1));
      EXPECT_EQ(value, 5);
      const int sent = 6;
      const Work send = second.send(ConstBuffer(&sent, 1), 0, 1);
      EXPECT_THAT(waited(works, 30), ElementsAre(2));
      EXPECT_EQ(other, 6);
      send.wait();
      first.barrier().wait();
    });
  });
}

}  // namespace
}  // namespace tutti
