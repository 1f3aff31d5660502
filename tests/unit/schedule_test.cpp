// Schedules: contents of round(), composition, other rank numbers, the last folds, and their text.
#include "collectives/plan/schedule.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tutti {
namespace {

TEST(Schedule, DropsStepsThatDoNothingAndRoundsWithoutSteps) {
  Schedule plan;
  plan.round({send(1, out({4, 0})), recv(2, out({0, 0})), copy(out({3, 5}), out({3, 5}))});
  EXPECT_TRUE(all_rounds(plan).empty());
  plan.round({send(1, out({4, 0})), recv(2, out({0, 3})), copy(out({3, 5}), in({3, 5}))});
  ASSERT_EQ(all_rounds(plan).size(), 1u);
  EXPECT_EQ(all_rounds(plan)[0], (std::vector<Step>{recv(2, out({0, 3})), copy(out({3, 5}), in({3, 5}))}));
}

TEST(Schedule, KeepsSignals) {
  Schedule plan;
  plan.round({notify(1), await(2)});
  ASSERT_EQ(all_rounds(plan).size(), 1u);
  EXPECT_EQ(all_rounds(plan)[0].size(), 2u);
  EXPECT_EQ(all_rounds(plan)[0][0].verb, Step::Verb::send);
  EXPECT_EQ(all_rounds(plan)[0][0].slice.count, 0u);
}

TEST(Schedule, ThenAppendsAndTakesTheLargerScratch) {
  Schedule first, second;
  first.use_scratch(7);
  first.round({send(1, in({0, 1}))});
  second.use_scratch(3);
  second.round({recv(1, out({0, 1}))});
  first.then(second);
  EXPECT_EQ(all_rounds(first).size(), 2u);
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
  ASSERT_EQ(all_rounds(moved).size(), 2u);
  EXPECT_EQ(moved.scratch(), 4u);
  EXPECT_EQ(all_rounds(moved)[0],
            (std::vector<Step>{send(9, in({101, 2})), recv_reduce(4, out({105, 2}), scratch({0, 2}))}));
  EXPECT_EQ(all_rounds(moved)[1], (std::vector<Step>{fold(out({100, 1}), in({100, 1}), scratch({3, 1})), notify(4)}));
}

TEST(Schedule, InPlaceReadsOutInsteadOfIn) {
  Schedule plan;
  plan.round({copy(out({0, 4}), in({0, 4}))});
  plan.round({send(1, in({0, 2})), recv_reduce(1, out({2, 2}), in({2, 2}))});
  const Schedule changed = plan.in_place();
  ASSERT_EQ(all_rounds(changed).size(), 1u) << "the copy became one onto itself";
  EXPECT_EQ(all_rounds(changed)[0], (std::vector<Step>{send(1, out({0, 2})), recv_reduce(1, out({2, 2}))}));
}

TEST(Schedule, PartialTakesBackThatAFoldIsTheLast) {
  Schedule plan;
  plan.round({last(recv_reduce(1, out({0, 4}), in({0, 4}))), last(recv_reduce(2, out({4, 2})), false)});
  EXPECT_TRUE(all_rounds(plan)[0][0].last);
  EXPECT_FALSE(all_rounds(plan)[0][1].last);
  EXPECT_FALSE(all_rounds(plan.partial())[0][0].last);
}

TEST(Schedule, MakesItsRoundsWhenTheyArePlayed) {
  Schedule plan;
  plan.rounds(1 << 20, [](int k, Round& round) { round.add(send(k, out({static_cast<std::size_t>(k), 1}))); });
  EXPECT_EQ(plan.rounds(), 1 << 20);
  EXPECT_EQ(plan.bytes(), sizeof(Schedule));
  std::vector<Step> steps;
  for (const int number : {12345, 7, 12345}) plan.play(number, [&](const Step& step) { steps.push_back(step); });
  EXPECT_EQ(steps, (std::vector<Step>{send(12345, out({12345, 1})), send(7, out({7, 1})), steps[0]}));
}

TEST(Schedule, AppliesChangesInTheirOrder) {
  Schedule plan;
  plan.rounds(2, [](int k, Round& round) { round.add(send(k, in({1, 2}))); });
  const std::array inner{1, 2};
  const std::array outer{30, 40, 50};
  Schedule both = plan.on(inner, 10).on(outer, 100);
  both.then(plan);
  EXPECT_EQ(to_string(both), "0: send 40 in[111,113)\n1: send 50 in[111,113)\n2: send 0 in[1,3)\n3: send 1 in[1,3)\n");
  EXPECT_EQ(to_string(both.in_place().on(Members::from(50, 90))),
            "0: send 0 out[111,113)\n1: send 10 out[111,113)\n2: send 50 out[1,3)\n3: send 51 out[1,3)\n");
}

TEST(Schedule, OfManyPhasesMovesToTheHeapAndStaysAValue) {
  Schedule plan, once;
  once.round({send(1, in({0, 4})), copy(out({0, 4}), in({0, 4}))});
  const std::array members{5, 6};
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    plan.then(once.on(members, static_cast<std::size_t>(i)));
    const std::string range = "[" + std::to_string(i) + "," + std::to_string(i + 4) + ")";
    expected += std::to_string(i) + ": send 6 in" + range + " | copy out" + range + " = in" + range + "\n";
  }
  EXPECT_GT(plan.bytes(), sizeof(Schedule));
  const Schedule copied = plan;
  plan.then(plan);
  EXPECT_EQ(to_string(copied), expected);
  EXPECT_EQ(plan.rounds(), 40);
  EXPECT_EQ(to_string(plan).substr(0, expected.size()), expected);
}

TEST(Schedule, CountsWhatItSends) {
  Schedule plan;
  plan.round({send(1, out({0, 4})), send(2, out({0, 2})), recv(3, out({4, 4}))});
  plan.round({send(1, out({0, 0}))});
  plan.round({notify(1), copy(out({0, 2}), in({0, 2}))});
  EXPECT_EQ(tally(plan), (Tally{.rounds = 2, .steps = 5, .messages = 3, .elements = 6}));
}

TEST(Slices, InRuns) {
  const Slice every_other = in_runs(out({1, 5}), 2, 4);  // 1 2, 5 6, 9
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < 5; ++i) at.push_back(every_other.at(i));
  EXPECT_EQ(at, (std::vector<std::size_t>{1, 2, 5, 6, 9}));
  const Slice backwards = in_runs(out({6, 6}), 2, -3);  // 6 7, 3 4, 0 1
  at.clear();
  for (std::size_t i = 0; i < 6; ++i) at.push_back(backwards.at(i));
  EXPECT_EQ(at, (std::vector<std::size_t>{6, 7, 3, 4, 0, 1}));
  std::string parts;
  each_run(in_runs(out({0, 7}), 3, 10), in_runs(in({0, 7}), 2, 5), [&](auto into, auto from, auto count) {
    parts += std::to_string(into) + "=" + std::to_string(from) + "*" + std::to_string(count) + " ";
  });
  EXPECT_EQ(parts, "0=0*2 2=5*1 10=6*1 11=10*2 20=15*1 ");
}

TEST(Schedule, Prints) {
  Schedule plan;
  plan.round({send(1, out({0, 4})), recv_reduce(3, out({4, 4}), in({4, 4}))});
  plan.round({copy(out({0, 2}), scratch({1, 2})), notify(2), await(0)});
  plan.round({last(fold(out({4, 4}), in({4, 4}), scratch({0, 4}))),
              copy(in_runs(out({8, 6}), 2, 5), in_runs(scratch({4, 6}), 1, -1))});
  EXPECT_EQ(to_string(plan),
            "0: send 1 out[0,4) | recv_reduce 3 out[4,8) = in[4,8) (op) received\n"
            "1: copy out[0,2) = scratch[1,3) | notify 2 | await 0\n"
            "2: fold out[4,8) = in[4,8) (op) scratch[0,4) last | "
            "copy out[8+6 by 2 every 5) = scratch[4+6 by 1 every -1)\n");
}

}  // namespace
}  // namespace tutti
