// The masters' rules on scripted pushes, compared number by number in double precision.
#include "engine/server/master_rules.hpp"
#include "engine/strategies/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Values = std::vector<double>;
constexpr double exact = 1e-12;

void expect_near(const Values& found, const Values& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], exact) << "element " << i;
}

/// A centre to which a rule applies pushes.
class Master {
 public:
  Master(ServerRule rule, Values centre) : rule_(std::move(rule)), centre_(std::move(centre)), scalars_(rule_.scalars) {
    for (std::size_t i = 0; i < rule_.slots; ++i) slots_.emplace_back(centre_.size());
  }
  struct Push {
    Values data;
    PushMeta meta = {};
    std::uint64_t staleness = 0;
  };
  /// Applies one round and returns the answers.
  std::vector<Values> round(std::initializer_list<Push> pushes) {
    std::vector<Values> answers;
    for (const Push& one : pushes) answers.emplace_back(rule_.answers ? one.data.size() : 0);
    std::vector<Pushed> pushed;
    for (const Push& one : pushes)
      pushed.push_back({ConstBuffer(one.data.data(), one.data.size(), DType::f64), one.meta, one.staleness,
                        buffer(answers[pushed.size()])});
    std::vector<Buffer> slots;
    for (Values& each : slots_) slots.push_back(buffer(each));
    rule_.apply({.values = buffer(centre_), .slots = slots, .scalars = scalars_, .version = version_++}, pushed);
    return answers;
  }
  Values push(Values data, PushMeta meta = {}, std::uint64_t staleness = 0) {
    return round({{std::move(data), meta, staleness}})[0];
  }
  const Values& centre() const { return centre_; }

 private:
  static Buffer buffer(Values& values) { return {values.data(), values.size(), DType::f64}; }
  ServerRule rule_;
  Values centre_;
  std::vector<Values> slots_;
  std::vector<double> scalars_;
  std::uint64_t version_ = 0;
};

PushMeta rate(double factor) { return {.factor = factor}; }
PushMeta trained(std::uint64_t tokens, std::uint64_t steps) { return {.tokens = tokens, .steps = steps}; }

TEST(downpour, ends_at_the_beginning_minus_the_sum_of_all_deltas) {
  Master master(delta_rule({}), {5, -5});
  master.push({1, .5});
  master.push({2, -.25});
  master.push({-4, 1});
  EXPECT_EQ(master.centre(), (Values{6, -6.25})) << "as ASGD has it";
}

TEST(downpour, takes_the_rate_that_comes_with_the_push) {
  Master master(delta_rule({}), {1});
  master.push({2}, rate(.1));
  expect_near(master.centre(), {.8});
  master.push({2}, rate(.25));
  expect_near(master.centre(), {.3});
}

TEST(downpour, leaves_out_or_damps_what_is_stale) {
  Master all(delta_rule({}), {0}), recent(delta_rule({.staleness = {StalenessPolicy::What::reject, 1}}), {0}),
      damped(delta_rule({.staleness = {StalenessPolicy::What::damp}}), {0});
  for (Master* const master : {&all, &recent, &damped}) {  // three workers' deltas from the same centre
    master->push({6}, {}, 0);
    master->push({6}, {}, 1);
    master->push({6}, {}, 2);
  }
  EXPECT_EQ(all.centre(), (Values{-18}));
  EXPECT_EQ(recent.centre(), (Values{-12}));
  expect_near(damped.centre(), {-11});
}

TEST(synchronous_masters, merge_a_round_by_mean_or_sum) {
  Master mean(delta_rule({.quorum = 3}), {10}), sum(delta_rule({.merge = Axes::Merge::sum, .quorum = 3}), {10});
  for (Master* const master : {&mean, &sum}) master->round({{{1}}, {{2}}, {{6}}});
  expect_near(mean.centre(), {7});
  expect_near(sum.centre(), {1});
  Master strict(delta_rule({.staleness = {StalenessPolicy::What::reject, 0}, .quorum = 3}), {10});
  strict.round({{{1}}, {{2}}, {{6}}});
  strict.round({{{1}}, {{2}}, {{90}, {}, 1}});  // the last push was too late for the previous round
  expect_near(strict.centre(), {5.5});
}

TEST(delayed_nesterov, steps_a_little_at_each_arrival_and_turns_at_every_nth) {
  Master master(delta_rule({.outer = {.rule = Axes::Outer::delayed_nesterov, .momentum = .9, .every = 2}}), {0});
  const double wanted[] = {-.5, -3.8, -4.3, -9.22};
  for (int i = 0; i < 4; ++i) {
    master.push({i % 2 == 0 ? 1.0 : 3.0});
    expect_near(master.centre(), {wanted[i]});
  }
  Master plain(delta_rule({.outer = {.rule = Axes::Outer::nesterov, .momentum = .9}}), {0});
  for (const double after : {-3.8, -9.22}) {
    plain.push({2});
    expect_near(plain.centre(), {after});
  }
  Master every(delta_rule({.outer = {.rule = Axes::Outer::delayed_nesterov, .momentum = .9}}), {0});
  for (const double after : {-3.8, -9.22}) {
    every.push({2});
    expect_near(every.centre(), {after});
  }
}

TEST(decoupled, weighs_by_tokens_and_keeps_the_mean_length) {
  EXPECT_EQ(token_weight(100, 10), 1000);
  EXPECT_EQ(token_weight(300, 30), 3000);
  const Master::Push a{{1, 0}, trained(100, 10)}, b{{0, 2}, trained(300, 30)};
  Master mean(delta_rule({.merge = Axes::Merge::tokens, .quorum = 2}), {0, 0});
  mean.round({a, b});
  expect_near(mean.centre(), {-.25, -1.5});
  Master radial(delta_rule({.merge = Axes::Merge::radial, .quorum = 2}), {0, 0});
  radial.round({a, b});
  EXPECT_NEAR(radial.centre()[0], -.5533985906, 1e-10);
  EXPECT_NEAR(radial.centre()[1], -1.6601957716, 1e-10);
  EXPECT_NEAR(std::hypot(radial.centre()[0], radial.centre()[1]), 1.75, exact);
  Master alone(delta_rule({.merge = Axes::Merge::radial}), {0, 0});
  alone.round({b});
  expect_near(alone.centre(), {0, -2});
  Master opposite(delta_rule({.merge = Axes::Merge::radial, .quorum = 2}), {7, 7});
  opposite.round({{{1, 1}, trained(10, 1)}, {{-1, -1}, trained(10, 1)}});
  expect_near(opposite.centre(), {7, 7});
}

TEST(decoupled, takes_lengths_tensor_by_tensor_across_shards) {
  const std::vector<tutti::Range> tensors{{0, 1}, {1, 2}};
  Master master(delta_rule({.merge = Axes::Merge::radial, .tensors = tensors, .quorum = 2}), {0, 0, 0});
  master.round({{{3, 1, 0}, trained(100, 10)}, {{1, 0, 2}, trained(300, 30)}});
  EXPECT_NEAR(master.centre()[0], -1.5, exact) << "one number: its mean";
  EXPECT_NEAR(master.centre()[1], -.5533985906, 1e-10);
  EXPECT_NEAR(master.centre()[2], -1.6601957716, 1e-10);
}

TEST(masters_of_masters, pass_on_what_they_have_changed) {
  Master region(delta_rule({.outer = {.rule = Axes::Outer::nesterov, .momentum = .9}}), {0}), top(delta_rule({}), {0});
  region.push({1}, rate(.5));
  region.push({1}, rate(.5));
  expect_near(region.centre(), {-2.305});
  top.push({0 - region.centre()[0]});
  expect_near(top.centre(), {-2.305});
  expect_near({.75 * region.centre()[0] + .25 * top.centre()[0]}, {-2.305});
}

TEST(easgd, moves_both_by_the_same) {
  Master master(elastic_rule(), {0});
  Values x{1};
  x[0] -= master.push(x, rate(.5))[0];
  EXPECT_EQ(x, (Values{.5}));
  EXPECT_EQ(master.centre(), (Values{.5}));
}

TEST(easgd, conserves_the_sum_and_closes_the_gap_by_the_recurrence) {
  Master master(elastic_rule(), {2});
  double x = 10, gap = 8;
  for (int i = 0; i < 10; ++i) {
    x -= master.push({x}, rate(.3))[0];
    gap *= 1 - 2 * .3;
    EXPECT_NEAR(x - master.centre()[0], gap, exact) << i;
    EXPECT_NEAR(x + master.centre()[0], 12, exact) << i;
  }
  EXPECT_NE(master.centre()[0], 2);
}

TEST(easgd, of_a_round_begins_from_one_centre) {
  Master master(elastic_rule(3), {0});
  const std::vector<Values> answers = master.round({{{1}, rate(.3)}, {{2}, rate(.3)}, {{-6}, rate(.3)}});
  expect_near(master.centre(), {.3 * (1 + 2 - 6)});
  expect_near(answers[0], {.3});
  expect_near(answers[1], {.6});
  expect_near(answers[2], {-1.8});
}

TEST(easgd, takes_another_part_from_one_exchange_to_the_next) {
  Master master(elastic_rule(), {0});
  expect_near(master.push({1}, rate(.9)), {.9});
  expect_near(master.push({1}, rate(.2)), {.02});
}

TEST(easgd, keeps_in_a_dump_where_each_worker_goes_on) {
  const auto copies = std::make_shared<WorkerCopies>(), loaded = std::make_shared<WorkerCopies>();
  Master master(elastic_rule(1, 0, copies), {0});
  master.round({{{1}, {.worker = 4, .factor = .5}}, {{3}, {.worker = 5, .factor = .5}}});
  const Values waiting{7};
  loaded->load(copies->save(std::vector<Pushed>{{ConstBuffer(waiting.data(), 1, DType::f64), {.worker = 5}, 0, {}}}));
  Master again(own_rule(loaded), {100});
  EXPECT_EQ(again.push({0}, {.worker = 4}), (Values{.5})) << "after its last exchange";
  EXPECT_EQ(again.push({0}, {.worker = 5}), (Values{7})) << "what it had pushed, and waits in a round";
  EXPECT_EQ(again.push({0}, {.worker = 6}), (Values{100})) << "the centre";
}

TEST(first, is_where_everybody_begins) {
  Master master(first_rule(), {0, 0});
  master.push({3, 4});
  master.push({5, 6});
  EXPECT_EQ(master.centre(), (Values{3, 4}));
}

/// Compares twenty steps, with deltas of changing sign, with the formula.
template <class Formula>
void compare(const OuterRule& outer, double lr, Formula formula) {
  Master master(delta_rule({.outer = outer}), {1, -2});
  Values wanted{1, -2};
  std::vector<Values> memory(2, Values(2));
  for (int t = 1; t <= 20; ++t) {
    const Values delta{std::cos(t), .1 * t - 1};
    master.push(delta, rate(lr));
    for (std::size_t i = 0; i < 2; ++i) wanted[i] -= formula(delta[i], memory[0][i], memory[1][i], t);
    expect_near(master.centre(), wanted);
  }
}

TEST(master_steps, are_those_of_the_formulas) {
  compare({.rule = Axes::Outer::sgd}, .01, [](double d, double&, double&, int) { return .01 * d; });
  compare({.rule = Axes::Outer::heavyball, .momentum = .8}, .01,
          [](double d, double& v, double&, int) { return .01 * (v = .8 * v + d); });
  compare({.rule = Axes::Outer::adam, .momentum = .9}, .001, [](double d, double& m, double& v, int t) {
    m = .9 * m + .1 * d;
    v = .999 * v + .001 * d * d;
    return .001 * (m / (1 - std::pow(.9, t))) / (std::sqrt(v / (1 - std::pow(.999, t))) + 1e-8);
  });
}

}  // namespace
}  // namespace tutti::engine
