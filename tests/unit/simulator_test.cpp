// The simulator detects defects: each plan is broken in one way, and the test names the expected defect.
#include "tests/support/simulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr int everyone = -1;

/// Returns the plan of a correct algorithm, damaged on one rank or on all ranks.
template <typename Damage>
Plan damaged(Kind kind, std::string_view name, int where, Damage damage) {
  const Algorithm* algorithm = find_algorithm(kind, name);
  return [algorithm, where, damage](const Shape& shape) {
    const Schedule good = algorithm->plan(shape);
    if (where != everyone && where != shape.rank) return good;
    Rounds rounds = all_rounds(good);
    damage(rounds);
    Schedule broken;
    broken.use_scratch(good.scratch());
    for (const auto& round : rounds) broken.round(round);
    return broken;
  };
}

std::string defect(const Trial& trial, const Plan& plan) { return simulate(trial, plan).defect; }

const Trial sum_of_four{.kind = Kind::allreduce, .size = 4, .count = 8};
const Trial sum_of_two{.kind = Kind::allreduce, .size = 2, .count = 8};

TEST(Simulator, AMissingRoundLeavesAPartialResult) {
  const Plan plan = damaged(Kind::allreduce, "ring", everyone, [](Rounds& rounds) { rounds.pop_back(); });
  EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("is not everyone's contribution"));
}

TEST(Simulator, ABlockInAnotherBlocksPlace) {
  const Plan plan =
      damaged(Kind::gather, "linear", 0, [](Rounds& rounds) { std::swap(rounds[0][0].slice, rounds[0][1].slice); });
  EXPECT_THAT(defect({.kind = Kind::gather, .size = 3, .count = 2}, plan),
              HasSubstr("rank 0, out[2]: in[0] of 2 instead of in[0] of 1"));
}

TEST(Simulator, AFoldOfDifferentElements) {
  const Plan plan = damaged(Kind::allreduce, "ring", 1, [](Rounds& rounds) { rounds[0][1].with.offset -= 2; });
  EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("folds different elements"));
}

TEST(Simulator, AContributionFoldedTwice) {
  const Plan plan = [](const Shape& s) {
    const Range all{0, s.count};
    Schedule twice;
    twice.round({send(1 - s.rank, in(all)), recv_reduce(1 - s.rank, out(all), in(all))});
    twice.round({fold(out(all), out(all), in(all))});
    return twice;
  };
  EXPECT_THAT(defect(sum_of_two, plan), HasSubstr("folds a contribution twice"));
}

TEST(Simulator, AFoldOfMemoryThatWasNeverWritten) {
  const Plan plan = [](const Shape& s) {
    Schedule early;
    early.use_scratch(s.count);
    early.round({fold(out({0, s.count}), in({0, s.count}), scratch({0, s.count}))});
    return early;
  };
  EXPECT_THAT(defect(sum_of_two, plan), HasSubstr("folds memory that was never written"));
}

TEST(Simulator, ADeadlock) {
  const Plan plan = [](const Shape& s) {
    Schedule late;
    late.round({await(1 - s.rank)});
    late.round({notify(1 - s.rank)});
    return late;
  };
  EXPECT_THAT(defect({.kind = Kind::barrier, .size = 2}, plan), HasSubstr("deadlock"));
}

TEST(Simulator, SendsThatOnlyBuffersWouldSave) {
  const Plan plan = [](const Shape& s) {
    Schedule eager;
    eager.round({send(1 - s.rank, in({0, s.count}))});
    eager.round({last(recv_reduce(1 - s.rank, out({0, s.count}), in({0, s.count})))});
    return eager;
  };
  EXPECT_THAT(defect(sum_of_two, plan), HasSubstr("deadlock"));
}

TEST(Simulator, AMessageThatNobodyReceives) {
  const Plan plan = damaged(Kind::broadcast, "binomial", 0, [](Rounds& rounds) {
    rounds.push_back({send(3, out({0, 1}))});
  });
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 4, .count = 8}, plan),
              HasSubstr("rank 0, round 1, send 3 out[0,1): nobody receives this message"));
}

TEST(Simulator, AMessageThatNobodySends) {
  const Plan plan = damaged(Kind::broadcast, "binomial", 3, [](Rounds& rounds) {
    rounds.push_back({recv(0, out({0, 1}))});
  });
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 4, .count = 8}, plan),
              HasSubstr("rank 3, round 1, recv 0 out[0,1): nobody sends this message"));
}

TEST(Simulator, MessagesOfDifferentCounts) {
  const Plan plan = damaged(Kind::broadcast, "chain", 2, [](Rounds& rounds) { rounds[0][0].slice.count = 7; });
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 4, .count = 8}, plan),
              HasSubstr("meets a message of another count"));
}

TEST(Simulator, MessagesThatMatchInAnotherOrder) {
  const Plan plan = [](const Shape& s) {
    Schedule two;
    if (s.rank == 0) two.round({send(1, out({0, 4})), send(1, out({4, 4}))});
    if (s.rank == 1) two.round({recv(0, out({4, 4})), recv(0, out({0, 4}))});
    return two;
  };
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 2, .count = 8}, plan),
              HasSubstr("out[0]: in[4] of 0 instead of in[0] of 0"));
}

TEST(Simulator, AStepThatWritesWhatAnotherReads) {
  const Plan plan = damaged(Kind::allreduce, "ring", 2, [](Rounds& rounds) {
    rounds[1].push_back(copy(out({rounds[1][0].slice.offset, 1}), in({0, 1})));
  });
  EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("writes what this step of the round uses: send"));
}

TEST(Simulator, TwoStepsThatWriteTheSame) {
  const Plan plan = damaged(Kind::gather, "linear", 0, [](Rounds& rounds) { rounds[0][0].slice = rounds[0][1].slice; });
  EXPECT_THAT(defect({.kind = Kind::gather, .size = 3, .count = 2}, plan),
              HasSubstr("writes what this step of the round uses"));
}

TEST(Simulator, AResultThatOverlapsItsOperand) {
  const Plan shifted = [](const Shape& s) {
    Schedule one;
    one.round({copy(out({1, s.count - 1}), out({0, s.count - 1}))});
    return one;
  };
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 1, .count = 8}, shifted),
              HasSubstr("its result overlaps an operand"));
}

TEST(Simulator, SlicesOutsideTheirMemory) {
  const Plan beyond = damaged(Kind::broadcast, "chain", everyone, [](Rounds& rounds) {
    for (auto& round : rounds)
      for (Step& step : round) step.slice.offset = 1;
  });
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 3, .count = 8}, beyond),
              HasSubstr("a slice ends outside its memory of 8"));
  const Plan no_scratch = [](const Shape& s) {
    Schedule one;
    one.round({copy(scratch({0, s.count}), out({0, s.count}))});
    return one;
  };
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 1, .count = 8}, no_scratch),
              HasSubstr("a slice ends outside its memory of 0"));
  const Plan out_on_a_leaf = [](const Shape& s) {
    Schedule one;
    one.round({copy(out({0, s.count}), in({0, s.count}))});
    return one;
  };
  EXPECT_THAT(defect({.kind = Kind::reduce, .size = 2, .count = 8, .root = 0}, out_on_a_leaf),
              HasSubstr("rank 1, round 0, copy out[0,8) = in[0,8): a slice ends outside its memory of 0"));
}

TEST(Simulator, RunsOutsideTheirMemory) {
  for (const std::ptrdiff_t stride : {4, -2}) {
    const Plan plan = [stride](const Shape&) {
      Schedule one;
      one.round({copy(in_runs(out({0, 6}), 2, stride), out({0, 6}))});
      return one;
    };
    EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 1, .count = 8}, plan),
                HasSubstr("a slice ends outside its memory of 8"))
        << stride;
  }
}

TEST(Simulator, RunsThatAnotherStepWrites) {
  const auto plan = [](std::size_t at) {
    return [at](const Shape&) {
      Schedule one;
      one.use_scratch(8);
      one.round({copy(scratch({0, 4}), in_runs(out({0, 4}), 1, 2)), copy(out({at, 1}), out({7, 1}))});
      return one;
    };
  };
  const Trial alone{.kind = Kind::broadcast, .size = 1, .count = 8};
  EXPECT_THAT(defect(alone, plan(4)), HasSubstr("writes what this step of the round uses"));
  EXPECT_THAT(defect(alone, plan(5)), HasSubstr("out[5]: in[7] of 0 instead of in[5] of 0"));
}

TEST(Simulator, RunsOfAMessage) {
  const Plan plan = [](const Shape& s) {
    Schedule one;
    if (s.rank == 0) one.round({send(1, in_runs(out({0, 4}), 2, 4))});
    if (s.rank == 1) one.round({recv(0, out({0, 4}))});
    return one;
  };
  EXPECT_THAT(defect({.kind = Kind::broadcast, .size = 2, .count = 8}, plan),
              HasSubstr("only a copy has slices with runs"));
}

TEST(Simulator, SlicesOfDifferentCountsInOneStep) {
  const Plan plan = damaged(Kind::allreduce, "ring", 0, [](Rounds& rounds) { rounds[0][1].with.count = 1; });
  EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("its slices have different counts"));
}

TEST(Simulator, APeerThatIsNone) {
  for (const int peer : {0, 4, -2}) {
    const Plan plan = damaged(Kind::allreduce, "ring", 0, [peer](Rounds& rounds) { rounds[0][0].peer = peer; });
    EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("no such peer")) << peer;
  }
}

TEST(Simulator, ASliceThatCrossesABlock) {
  const Algorithm* bruck = find_algorithm(Kind::allgather, "bruck");
  Trial trial{.kind = Kind::allgather, .size = 4, .count = 8};
  EXPECT_EQ(defect(trial, bruck->plan), "");
  trial.lanes = true;
  EXPECT_THAT(defect(trial, bruck->plan), HasSubstr("a slice crosses a block"));
}

TEST(Simulator, AnInputThatIsWrittenTo) {
  const Plan plan = damaged(Kind::reduce, "chain", 1,
                            [](Rounds& rounds) { rounds[0][0].slice.memory = rounds[1][0].slice.memory = Memory::in; });
  EXPECT_THAT(defect({.kind = Kind::reduce, .size = 3, .count = 8}, plan), HasSubstr("rank 1 has written to in[0]"));
}

/// Correct out of place, and equal on both ranks. But rank 0 folds into `out` while it still sends `in`.
Schedule fold_while_sending(const Shape& s) {
  const Range all{0, s.count};
  Schedule one;
  if (s.rank == 0) one.round({send(1, in(all)), last(recv_reduce(1, out(all), in(all)))});
  if (s.rank == 1) {
    one.round({send(0, in(all)), recv(0, scratch(all))});
    one.round({last(fold(out(all), scratch(all), in(all)))});
    one.use_scratch(s.count);
  }
  return one;
}

/// Correct out of place. But rank 0 receives into `out` before it has used `in`.
Schedule use_in_too_late(const Shape& s) {
  const Range all{0, s.count};
  Schedule one;
  if (s.rank == 1) {
    one.round({send(0, in(all))});
    one.round({recv(0, out(all))});
    return one;
  }
  one.round({recv(1, out(all))});
  one.round({last(fold(out(all), in(all), out(all)))});
  one.round({send(1, out(all))});
  return one;
}

TEST(Simulator, WhatIsWrongInPlaceOnly) {
  const Trial in_place{.kind = Kind::allreduce, .size = 2, .count = 8, .in_place = 1};
  EXPECT_EQ(defect(sum_of_two, use_in_too_late), "");
  EXPECT_THAT(defect(in_place, use_in_too_late), HasSubstr("folds a contribution twice"));
  EXPECT_THAT(defect(in_place, fold_while_sending), HasSubstr("writes what this step of the round uses"));
}

TEST(Simulator, FoldsInAnotherOrder) {
  EXPECT_EQ(defect(sum_of_two, fold_while_sending), "") << "(0 + 1) on both";
  const Plan own_first = [](const Shape& s) {
    const Range all{0, s.count};
    Schedule one;
    one.round({send(1 - s.rank, in(all)), last(recv_reduce(1 - s.rank, out(all), in(all)))});
    return one;
  };
  EXPECT_THAT(defect(sum_of_two, own_first), HasSubstr("is folded in another order than on rank 0"));
}

TEST(Simulator, FoldsThatAreNotSaidToBeTheLast) {
  const auto clear = [](Rounds& rounds) {
    for (auto& round : rounds)
      for (Step& step : round) step.last = false;
  };
  EXPECT_THAT(defect(sum_of_four, damaged(Kind::allreduce, "ring", everyone, clear)),
              HasSubstr("no fold is said to be the last one"));
  EXPECT_THAT(defect({.kind = Kind::reduce_scatter, .size = 3, .count = 2},
                     damaged(Kind::reduce_scatter, "pairwise", 2, clear)),
              HasSubstr("no fold is said to be the last one"));
}

TEST(Simulator, FoldsThatAreSaidToBeTheLastTooEarly) {
  const Plan plan = damaged(Kind::allreduce, "halving_doubling", 0, [](Rounds& rounds) { rounds[0][1].last = true; });
  EXPECT_THAT(defect(sum_of_four, plan), HasSubstr("is said to be the last fold, and is not"));
}

TEST(Simulator, ABarrierThatSomebodyLeavesTooEarly) {
  const Plan plan = damaged(Kind::barrier, "dissemination", everyone, [](Rounds& rounds) { rounds.pop_back(); });
  EXPECT_THAT(defect({.kind = Kind::barrier, .size = 5}, plan),
              HasSubstr("leaves the barrier without having heard from all"));
}

TEST(Simulator, CountsTheLongestChainAndWhatTheBusiestRankSends) {
  const Trial trial{.kind = Kind::broadcast, .size = 5, .count = 8};
  EXPECT_EQ(simulate(trial, find_algorithm(Kind::broadcast, "chain")->plan).cost, (Cost{4, 8}));
  EXPECT_EQ(simulate(trial, find_algorithm(Kind::broadcast, "linear")->plan).cost, (Cost{1, 32}));
  EXPECT_EQ(simulate(trial, find_algorithm(Kind::broadcast, "binomial")->plan).cost, (Cost{2, 24}));
  const Plan wasteful = damaged(Kind::broadcast, "chain", everyone, [](Rounds& rounds) {
    const auto once = rounds;
    rounds.insert(rounds.end(), once.begin(), once.end());
  });
  const Outcome twice = simulate(trial, wasteful);
  EXPECT_EQ(twice.defect, "");
  EXPECT_EQ(twice.cost.elements, 16u);
  EXPECT_EQ(twice.messages, 8u);
}

}  // namespace
}  // namespace tutti::testing
