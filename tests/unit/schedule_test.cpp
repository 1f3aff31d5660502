// Schedules: what round() keeps, composition, relabelling, the last folds, and how they print.
#include "collectives/plan/schedule.hpp"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

namespace tutti {
namespace {

TEST(Schedule, DropsStepsThatDoNothingAndRoundsWithoutSteps) {
  Schedule plan;
  plan.round({send(1, out({4, 0})), recv(2, out({0, 0})), copy(out({3, 5}), out({3, 5}))});
  EXPECT_TRUE(plan.rounds().empty());
  plan.round({send(1, out({4, 0})), recv(2, out({0, 3})), copy(out({3, 5}), in({3, 5}))});
  ASSERT_EQ(plan.rounds().size(), 1u);
  EXPECT_EQ(plan.rounds()[0], (std::vector<Step>{recv(2, out({0, 3})), copy(out({3, 5}), in({3, 5}))}));
}

TEST(Schedule, KeepsSignals) {
  Schedule plan;
  plan.round({notify(1), await(2)});
  ASSERT_EQ(plan.rounds().size(), 1u);
  EXPECT_EQ(plan.rounds()[0].size(), 2u);
  EXPECT_EQ(plan.rounds()[0][0].verb, Step::Verb::send);
  EXPECT_EQ(plan.rounds()[0][0].slice.count, 0u);
}

TEST(Schedule, ThenAppendsAndTakesTheLargerScratch) {
  Schedule first, second;
  first.use_scratch(7);
  first.round({send(1, in({0, 1}))});
  second.use_scratch(3);
  second.round({recv(1, out({0, 1}))});
  first.then(second);
  EXPECT_EQ(first.rounds().size(), 2u);
  EXPECT_EQ(first.scratch(), 7u);
  second.then(first);
  EXPECT_EQ(second.scratch(), 7u);
}

TEST(Schedule, OnRenamesPeersAndMovesInAndOutButNotScratch) {
  Schedule plan;
  plan.use_scratch(4);
  plan.round({send(0, in({1, 2})), recv_reduce(1, out({5, 2}), scratch({0, 2}))});
  plan.round({fold(out({0, 1}), in({0, 1}), scratch({3, 1})), notify(1)});
  const std::array members{9, 4};
  const Schedule moved = plan.on(members, 100);
  ASSERT_EQ(moved.rounds().size(), 2u);
  EXPECT_EQ(moved.scratch(), 4u);
  EXPECT_EQ(moved.rounds()[0],
            (std::vector<Step>{send(9, in({101, 2})), recv_reduce(4, out({105, 2}), scratch({0, 2}))}));
  EXPECT_EQ(moved.rounds()[1], (std::vector<Step>{fold(out({100, 1}), in({100, 1}), scratch({3, 1})), notify(4)}));
}

TEST(Schedule, InPlaceReadsOutInsteadOfIn) {
  Schedule plan;
  plan.round({copy(out({0, 4}), in({0, 4}))});
  plan.round({send(1, in({0, 2})), recv_reduce(1, out({2, 2}), in({2, 2}))});
  const Schedule changed = plan.in_place();
  ASSERT_EQ(changed.rounds().size(), 1u) << "the copy became one onto itself";
  EXPECT_EQ(changed.rounds()[0], (std::vector<Step>{send(1, out({0, 2})), recv_reduce(1, out({2, 2}))}));
}

TEST(Schedule, ReducedMarksTheLastFoldOfEachElementOnly) {
  Schedule plan;
  plan.round({recv_reduce(1, out({0, 4}), in({0, 4}))});
  plan.round({recv_reduce(2, out({0, 2})), recv_reduce(2, scratch({2, 2}), in({2, 2}))});
  plan.round({send(1, out({0, 2})), recv(1, out({6, 2}))});
  plan.reduced(out({0, 2}));
  EXPECT_FALSE(plan.rounds()[0][0].last);
  EXPECT_TRUE(plan.rounds()[1][0].last);
  EXPECT_FALSE(plan.rounds()[1][1].last) << "that is another memory";
  EXPECT_FALSE(plan.rounds()[2][1].last);
  EXPECT_FALSE(plan.partial().rounds()[1][0].last);
}

TEST(Schedule, ReducedCoversASliceByManyFolds) {
  Schedule plan;
  for (std::size_t i = 0; i < 6; i += 2) plan.round({fold(out({i, 2}), in({i, 2}), scratch({i, 2}))});
  plan.reduced(out({0, 6}));
  for (const auto& round : plan.rounds()) EXPECT_TRUE(round[0].last);
}

TEST(Schedule, ReducedRefusesAFoldThatReachesBeyondTheSlice) {
  Schedule plan;
  plan.round({recv_reduce(1, out({0, 4}), in({0, 4}))});
  EXPECT_THROW(plan.reduced(out({2, 2})), std::logic_error);
}

TEST(Schedule, Prints) {
  Schedule plan;
  plan.round({send(1, out({0, 4})), recv_reduce(3, out({4, 4}), in({4, 4}))});
  plan.round({copy(out({0, 2}), scratch({1, 2})), notify(2), await(0)});
  plan.round({fold(out({4, 4}), in({4, 4}), scratch({0, 4}))});
  plan.reduced(out({4, 4}));
  EXPECT_EQ(to_string(plan),
            "0: send 1 out[0,4) | recv_reduce 3 out[4,8) = in[4,8) (op) received\n"
            "1: copy out[0,2) = scratch[1,3) | notify 2 | await 0\n"
            "2: fold out[4,8) = in[4,8) (op) scratch[0,4) last\n");
}

}  // namespace
}  // namespace tutti
