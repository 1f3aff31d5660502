// Strategies against numbers computed by hand, in float64 to 1e-12.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/strategies/merge.hpp"
#include "engine/strategies/outer_optimizer.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"
#include "tests/engine/play.hpp"

namespace tutti::engine {
namespace {

constexpr double exact = 1e-12;

/// A play in which a rank has the gradient `of_rank[rank]` in every step.
Play constant(const std::vector<std::string>& words, const Values& begin, const std::vector<Values>& of_rank,
              std::size_t steps, double lr) {
  return {.ranks = static_cast<int>(of_rank.size()),
          .words = words,
          .begin = {{"x", vector_of(begin)}},
          .steps = steps,
          .lr = lr,
          .gradient = [of_rank](int rank, std::size_t, const std::string&, const at::Tensor&) {
            return vector_of(of_rank[static_cast<std::size_t>(rank)]);
          }};
}

TEST(DiLoCo, IsNesterovsStepByTheMeanDelta) {
  for (const Played& rank : played(constant({"strategy=diloco", "strategy.every=2"}, {1}, {{1}, {3}}, 6, 0.1))) {
    expect_near(rank.after[1], {.468});
    expect_near(rank.after[3], {-.2908});
    expect_near(rank.after[5], {-1.25372});
  }
}

TEST(DiLoCo, OvershootsOnAQuadraticAsMomentumDoes) {
  Play play = constant({"strategy=diloco", "strategy.every=2"}, {4}, {{0}, {0}}, 4, 0.5);
  play.gradient = [](int rank, std::size_t, const std::string&, const at::Tensor& x) { return x - 2.0 * rank; };
  for (const Played& rank : played(play)) {
    expect_near(rank.after[1], {1.0075});
    expect_near(rank.after[3], {-.27573125});
  }
}

TEST(SlowMo, IsTheHeavyBall) {
  const std::vector<std::string> words{"strategy=diloco", "strategy.every=2", "strategy.outer=heavyball",
                                       "strategy.outer_lr=1"};
  for (const Played& rank : played(constant(words, {1}, {{1}, {3}}, 4, 0.1))) {
    expect_near(rank.after[1], {.6});
    expect_near(rank.after[3], {-.16});
  }
}

// The cases of torchft's tests, computed anew. Fragment a is synced after steps 3 and 9, b after 6 and 12.
TEST(StreamingDiLoCo, SendsFragmentsInTurnsAndAppliesThemLater) {
  struct Case {
    int delay;
    double alpha;
    Values a, b;
  };
  for (const Case& each : {Case{0, 0, {-11, -35}, {-23, -47}},
                           {0, .5, {-8, -24.5}, {-17, -32}},
                           {0, 1, {-5, -17}, {-11, -23}},
                           {1, 0, {-7, -27}, {-19, -39}},
                           {1, .5, {-6, -21.5}, {-15, -29}},
                           {1, 1, {-5, -17}, {-11, -23}}}) {
    Play play =
        constant({"strategy=streaming-diloco", "strategy.every=6", "strategy.fragments=2", "strategy.codec=none",
                  "strategy.outer=sgd", "strategy.outer_lr=2", "strategy.outer_momentum=0",
                  "strategy.delay=" + std::to_string(each.delay), "strategy.alpha=" + std::to_string(each.alpha)},
                 {1}, {{2}, {2}}, 12, 1);
    play.begin = {{"a.weight", vector_of({1})}, {"b.weight", vector_of({1})}};
    for (const Played& rank : played(play)) {
      expect_near({rank.after[2][0], rank.after[8][0]}, each.a);
      expect_near({rank.after[5][1], rank.after[11][1]}, each.b);
      EXPECT_EQ(rank.stats.finished, 4U);
    }
  }
}

// With unequal replicas and momentum, which torchft's tests do not have; checks one of two fragments.
TEST(StreamingDiLoCo, FollowsItsDefinitionWithMomentumAndUnequalRanks) {
  Play play = constant({"strategy=streaming-diloco", "strategy.every=4", "strategy.fragments=2", "strategy.codec=none",
                        "strategy.delay=1", "strategy.alpha=0.25"},
                       {1}, {{1}, {3}}, 10, 0.1);
  play.begin = {{"a.weight", vector_of({1})}, {"b.weight", vector_of({1})}};
  const auto all = played(play);
  double theta = 1, velocity = 0, sent = 0;
  Values x{1, 1};
  for (std::size_t step = 1; step <= 10; ++step) {
    x = {x[0] - .1, x[1] - .3};
    if (step % 4 == 1) sent = theta - (x[0] + x[1]) / 2;  // fragment a: sent after 1, 5, 9, applied after 2, 6, 10
    if (step % 4 == 2) {
      velocity = .9 * velocity + sent;
      theta -= .7 * (sent + .9 * velocity);
      x = {.25 * x[0] + .75 * theta, .25 * x[1] + .75 * theta};
    }
    EXPECT_NEAR(all[0].after[step - 1][0], x[0], exact) << step;
    EXPECT_NEAR(all[1].after[step - 1][0], x[1], exact) << step;
  }
}

Values outer_path(const OuterRule& numbers, const Values& deltas, double theta = 0) {
  exchange::OuterOptimizer outer(numbers);
  const at::Tensor copy = vector_of({theta});
  Values path;
  for (const double delta : deltas) {
    outer.step(copy, vector_of({delta}));
    path.push_back(copy.item<double>());
  }
  return path;
}

TEST(DelayedNesterov, StepsByEveryArrivalAndByMomentumAfterEveryNth) {
  const OuterRule two{.rule = Axes::Outer::delayed_nesterov, .lr = 1, .momentum = .9, .every = 2};
  expect_near(outer_path(two, {1, 3, 1, 3}), {-.5, -3.8, -4.3, -9.22});
  const OuterRule plain{.rule = Axes::Outer::nesterov, .lr = 1, .momentum = .9};
  expect_near(outer_path(plain, {2, 2}), {-3.8, -9.22});
  OuterRule one = two;
  one.every = 1;
  expect_near(outer_path(one, {1, -2, 4}), outer_path(plain, {1, -2, 4}));
}

TEST(OuterRules, FollowTheirFormulas) {
  expect_near(outer_path({.rule = Axes::Outer::none}, {1, 3}, 5), {4, 1});
  expect_near(outer_path({.rule = Axes::Outer::sgd, .lr = .5}, {1, 3}), {-.5, -2});
  expect_near(outer_path({.rule = Axes::Outer::heavyball, .lr = 1, .momentum = .9}, {.4, .4}, 1), {.6, -.16});
  const double m1 = .1 * 2, v1 = .001 * 4, m2 = .9 * m1 + .1, v2 = .999 * v1 + .001;
  const double first = -.1 * (m1 / .1) / (std::sqrt(v1 / .001) + 1e-8);
  const double second = first - .1 * (m2 / (1 - .81)) / (std::sqrt(v2 / (1 - .999 * .999)) + 1e-8);
  expect_near(outer_path({.rule = Axes::Outer::adam, .lr = .1, .momentum = .9}, {2, 1}), {first, second});
  EXPECT_EQ(OuterRule{.rule = Axes::Outer::nesterov}.slots(), 1U);
  EXPECT_EQ(OuterRule{.rule = Axes::Outer::adam}.slots(), 2U);
  EXPECT_EQ(OuterRule{.rule = Axes::Outer::sgd}.slots(), 0U);
}

// All ranks have the same number of samples, so the weights are equal.
TEST(Merges, RadialAndByTokensInAStrategy) {
  const auto radial = played(constant({"strategy=diloco", "strategy.every=1", "strategy.merge=radial",
                                       "strategy.outer=sgd", "strategy.outer_lr=1", "strategy.outer_momentum=0"},
                                      {0, 0}, {{1, 0}, {0, 2}}, 1, 1));
  const double side = 1.5 / std::sqrt(2.0);
  for (const Played& rank : radial) expect_near(rank.after[0], {-side, -side});
  const auto tokens = played(constant({"strategy=diloco", "strategy.every=1", "strategy.merge=tokens",
                                       "strategy.outer=sgd", "strategy.outer_lr=1", "strategy.outer_momentum=0"},
                                      {0, 0}, {{1, 0}, {0, 2}}, 1, 1));
  for (const Played& rank : tokens) expect_near(rank.after[0], {-.5, -1});
}

TEST(Merges, GossipByWeight) {
  EXPECT_NEAR(gossip_mean(vector_of({1}), .25, vector_of({5}), .75).item<double>(), 4, exact);
  EXPECT_NEAR(gossip_mean(1.0, .25, 5.0, .75), 4, exact);
}

// The deltas of the first step are 1 and 3, those of the second one 2 and 5.
TEST(EagerDiLoCo, AddsTheFreshPartOfItsOwn) {
  Play play = constant({"strategy=eager-diloco", "strategy.every=1", "strategy.outer=sgd", "strategy.outer_lr=1",
                        "strategy.outer_momentum=0"},
                       {0}, {{0}, {0}}, 2, 1);
  play.gradient = [](int rank, std::size_t step, const std::string&, const at::Tensor&) {
    constexpr double deltas[2][2] = {{1, 3}, {2, 5}};
    return vector_of({deltas[step][rank]});
  };
  const auto all = played(play);
  expect_near(all[0].after[0], {-.5});
  expect_near(all[1].after[0], {-1.5});
  expect_near(all[0].after[1], {-.5 - 2.5});
  expect_near(all[1].after[1], {-1.5 - 3.0});
  expect_near(all[0].settled, {(-3 - 4.5) / 2});
}

TEST(NoLoCo, IsTheHeavyBallWithAPullToThePair) {
  Play play = constant({"strategy=noloco", "strategy.every=1"}, {0}, {{.2}, {.6}}, 1, 1);
  play.own = [](int rank, const std::string&, const at::Tensor&) { return vector_of({rank == 0 ? 1.0 : 3.0}); };
  const auto all = played(play);
  expect_near(all[0].after[0], {1.42});
  expect_near(all[1].after[0], {2.02});
  expect_near(all[0].settled, {1.72});
}

TEST(NoLoCo, ClosesTheGapByItsRecurrence) {
  Play play = constant({"strategy=noloco", "strategy.every=1"}, {0}, {{0}, {0}}, 4, 1);
  play.own = [](int rank, const std::string&, const at::Tensor&) { return vector_of({rank == 0 ? 1.0 : 3.0}); };
  const auto all = played(play);
  const Values gaps{.6, -.52, -.716, -.3128};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(all[1].after[i][0] - all[0].after[i][0], gaps[i], exact);
    EXPECT_NEAR(all[1].after[i][0] + all[0].after[i][0], 4, exact);
  }
}

Play sparta(double part, int seed, std::size_t steps = 1) {
  Play play = constant({"strategy=sparta", "strategy.mask=" + std::to_string(part), "strategy.codec=mask",
                        "seed=" + std::to_string(seed)},
                       {1, 2, 3, 4}, {{0, 0, 0, 0}, {0, 0, 0, 0}}, steps, 1);
  play.own = [](int rank, const std::string&, const at::Tensor& value) {
    return rank == 0 ? value : vector_of({3, 2, 1, 0});
  };
  return play;
}

TEST(Sparta, AveragesWhatTheMaskHas) {
  bool met = false;  // true once a seed has drawn the mask {0, 3}
  for (int seed = 1; seed <= 60 && !met; ++seed) {
    const auto all = played(sparta(.5, seed));
    double total = 0;
    for (const Played& rank : all)
      for (const double value : rank.after[0]) total += value;
    EXPECT_NEAR(total, 16, exact) << seed;
    met = all[0].after[0] == Values{2, 2, 3, 2} && all[1].after[0] == Values{2, 2, 1, 2};
  }
  EXPECT_TRUE(met);
}

TEST(Sparta, MeetsEveryCoordinateInItsTurn) {
  for (const Played& rank : played(sparta(.25, 3, 4))) expect_near(rank.after[3], {2, 2, 2, 2});
  for (const Played& rank : played(sparta(.5, 3, 2))) expect_near(rank.after[1], {2, 2, 2, 2});
  for (const Played& rank : played(sparta(1, 3))) expect_near(rank.after[0], {2, 2, 2, 2});
}

TEST(SparseLoCo, SendsTheLargestAndKeepsTheRest) {
  Play play = constant({"strategy=sparseloco", "strategy.every=1", "strategy.codec=top_k:1/4", "strategy.outer_lr=1"},
                       {0, 0, 0, 0}, {{0}, {0}}, 2, 1);
  play.gradient = [](int rank, std::size_t step, const std::string&, const at::Tensor& x) {
    if (step > 0) return at::zeros_like(x);
    return rank == 0 ? vector_of({4, -1, .5, 0}) : vector_of({0, 3, -2, 1});
  };
  for (const Played& rank : played(play)) {
    expect_near(rank.after[0], {-2, -1.5, 0, 0});
    expect_near(rank.after[1], {-2, -1.025, .95, 0});
  }
}

// With feedback 1, the values sent and the residuals add up to all deltas.
TEST(SparseLoCo, LosesNothing) {
  Play play = constant({"strategy=sparseloco", "strategy.every=1", "strategy.codec=top_k:2/8+2bit",
                        "strategy.outer_lr=1", "strategy.feedback=1"},
                       Values(20, 0.0), {{0}, {0}, {0}}, 7, 1);
  const auto delta = [](int rank, std::size_t step) {
    return torch::sin(torch::arange(20, torch::kDouble) * (rank + 1.5) + 3.0 * static_cast<double>(step));
  };
  play.gradient = [&](int rank, std::size_t step, const std::string&, const at::Tensor&) { return delta(rank, step); };
  const auto all = played(play);
  at::Tensor deltas = at::zeros({20}, at::kDouble), kept = deltas.clone();
  for (int rank = 0; rank < 3; ++rank) {
    for (std::size_t step = 0; step < 7; ++step) deltas += delta(rank, step);
    for (const auto& [name, tensor] : all[static_cast<std::size_t>(rank)].state)
      if (name == "x.error") kept += tensor;
  }
  expect_near(values_of(kept - 3 * vector_of(all[0].after[6])), values_of(deltas), 1e-11);
}

// Distributed Lion: each rank takes a Lion step, and the majority of signs is applied.
TEST(SignVote, IsAStrategyOverLion) {
  Play play = constant({"strategy=diloco", "strategy.every=1", "strategy.merge=vote", "strategy.outer=sgd",
                        "strategy.outer_lr=0.5", "strategy.outer_momentum=0"},
                       {0, 0}, {{1, 1}, {-2, 5}, {3, -7}}, 1, 0.25);
  play.optimizer = "lion";
  for (const Played& rank : played(play)) expect_near(rank.after[0], {-.5, -.5});
}

TEST(Halos, IsTwoLevelsOfTheSameSteps) {
  exchange::OuterOptimizer region({.rule = Axes::Outer::nesterov, .lr = .5, .momentum = .9}),
      top({.rule = Axes::Outer::sgd, .lr = 1});
  const at::Tensor local = vector_of({0}), global = vector_of({0}), reference = local.clone();
  region.step(local, vector_of({1}));
  region.step(local, vector_of({1}));
  const at::Tensor delta = reference - local;
  EXPECT_NEAR(delta.item<double>(), 2.305, exact);
  top.step(global, delta);
  local.mul_(.75).add_(global, .25);
  EXPECT_NEAR(global.item<double>(), -2.305, exact);
  EXPECT_NEAR(local.item<double>(), -2.305, exact);
}

}  // namespace
}  // namespace tutti::engine
