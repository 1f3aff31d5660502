// Peers and masters have the same outer steps and merges: the same deltas give the same bits on both sides.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/server/master_rules.hpp"
#include "engine/strategies/merge.hpp"
#include "engine/strategies/outer_optimizer.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"
#include "nn/tensor.hpp"
#include "tests/engine/play.hpp"

namespace tutti::engine {
namespace {

constexpr std::int64_t many = 1000;

at::Tensor draw(std::mt19937& random, at::ScalarType type, std::int64_t count = many) {
  std::normal_distribution<double> normal;
  const at::Tensor drawn = at::empty({count}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) drawn.data_ptr<double>()[i] = normal(random);
  return drawn.to(type);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

/// A master with one shard: applies the rule to rounds of deltas, and keeps the rule's state.
class Master {
 public:
  Master(const DeltaRule& rule, const at::Tensor& begin)
      : rule_(delta_rule(rule)), centre_(begin.clone()), scalars_(rule_.scalars) {
    const auto wide = begin.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    for (std::size_t i = 0; i < rule_.slots; ++i) slots_.push_back(at::zeros(begin.sizes(), wide));
  }
  void round(const std::vector<at::Tensor>& deltas, const PushMeta& meta) {
    std::vector<Pushed> pushed;
    for (const at::Tensor& delta : deltas) {
      const Buffer data = nn::buffer(delta);
      pushed.push_back({ConstBuffer(data.data, data.count, data.dtype), meta, 0, {}});
    }
    std::vector<Buffer> slots;
    for (const at::Tensor& each : slots_) slots.push_back(nn::buffer(each));
    rule_.apply({.values = nn::buffer(centre_), .slots = slots, .scalars = scalars_, .version = version_++}, pushed);
  }
  const at::Tensor& centre() const { return centre_; }

 private:
  ServerRule rule_;
  at::Tensor centre_;
  std::vector<at::Tensor> slots_;
  std::vector<double> scalars_;
  std::uint64_t version_ = 0;
};

constexpr Axes::Outer rules[] = {Axes::Outer::sgd, Axes::Outer::heavyball, Axes::Outer::nesterov,
                                 Axes::Outer::delayed_nesterov, Axes::Outer::adam};

class OuterSteps : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(OuterSteps, OfPeersAndOfMastersAreTheSame) {
  for (const Axes::Outer rule : rules) {
    std::mt19937 random(7);
    const OuterRule outer{.rule = rule, .lr = .7, .momentum = .9, .every = 3};
    const at::Tensor theta = draw(random, GetParam());
    Master master({.outer = outer}, theta);
    exchange::OuterOptimizer peers(outer);
    for (int step = 0; step < 12; ++step) {
      const at::Tensor delta = draw(random, GetParam()) * .1;
      peers.step(theta, delta);
      master.round({delta}, {.factor = .7});
      ASSERT_TRUE(same_bits(theta, master.centre())) << "rule " << static_cast<int>(rule) << ", step " << step;
    }
  }
}

// Large tensors are divided among threads, small ones are not, and vector instructions leave remainders of any size.
TEST_P(OuterSteps, DoNotDependOnHowElementsAreCut) {
  for (const Axes::Outer rule : rules) {
    std::mt19937 random(3);
    const OuterRule outer{.rule = rule, .lr = .7, .momentum = .9};
    const at::Tensor theta = draw(random, GetParam(), 70'001), delta = draw(random, GetParam(), 70'001);
    const at::Tensor one = theta.clone();
    exchange::OuterOptimizer whole(outer), single(outer);
    whole.step(theta, delta);
    for (std::int64_t at = 0, count = 1; at < one.numel(); at += count, count = count * 5 + 3) {
      exchange::OuterOptimizer piece(outer);
      const std::int64_t here = std::min(count, one.numel() - at);
      piece.step(one.narrow(0, at, here), delta.narrow(0, at, here));
    }
    EXPECT_TRUE(same_bits(theta, one)) << "rule " << static_cast<int>(rule);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OuterSteps, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf));

// Tensors on a device are stepped by the same equations, but a product and a sum may be rounded twice there.
TEST(OuterSteps, OverTensorsAreThoseOverElements) {
  for (const Axes::Outer rule : rules) {
    std::mt19937 random(11);
    const OuterRule outer{.rule = rule, .lr = .7, .momentum = .9, .every = 2};
    const at::Tensor theta = draw(random, at::kDouble);
    at::Tensor value = theta.clone(), v = at::zeros_like(theta), s = at::zeros_like(theta);
    exchange::OuterOptimizer elements(outer);
    for (int step = 1; step <= 4; ++step) {
      const at::Tensor delta = draw(random, at::kDouble);
      elements.step(theta, delta);
      with_outer_rule(outer, step, [&](const auto& equations) { equations(value, delta, v, s); });
      EXPECT_LT((value - theta).abs().max().item<double>(), 1e-13) << "rule " << static_cast<int>(rule);
    }
  }
}

/// Returns theta after one step of diloco on two ranks, which start from `begin` and have learning rate 1.
at::Tensor peers(const std::string& merge, const at::Tensor& begin, const std::vector<at::Tensor>& deltas) {
  Play play{.ranks = 2,
            .words = {"strategy=diloco", "strategy.every=1", "strategy.merge=" + merge},
            .begin = {{"x", begin}},
            .gradient = [&](int rank, std::size_t, const std::string&, const at::Tensor&) {
              return deltas[static_cast<std::size_t>(rank)];
            }};
  return vector_of(played(play)[0].after[0]);
}

// All values are whole numbers, so that theta - (theta - delta) is exactly delta.
TEST(Merges, OfPeersAndOfMastersAreTheSame) {
  const at::Tensor begin = at::arange(many, at::kDouble) - 500;
  const std::vector<at::Tensor> deltas{(at::arange(many, at::kDouble) * 37) % 101 - 50,
                                       (at::arange(many, at::kDouble) * 53) % 89 - 44};
  const std::pair<const char*, Axes::Merge> merges[] = {
      {"mean", Axes::Merge::mean}, {"sum", Axes::Merge::sum}, {"tokens", Axes::Merge::tokens}};
  for (const auto& [name, merge] : merges) {
    Master master({.outer = {.rule = Axes::Outer::nesterov, .momentum = .9}, .merge = merge, .quorum = 2}, begin);
    master.round(deltas, {.tokens = 4, .steps = 1, .factor = .7});
    EXPECT_TRUE(same_bits(peers(name, begin, deltas), master.centre())) << name;
  }
  // Deltas of lengths 3 and 5 along two axes, so that mean length and mean direction are exact on both sides.
  const at::Tensor zero = at::zeros({2}, at::kDouble);
  const std::vector<at::Tensor> axes{vector_of({3, 0}), vector_of({0, 5})};
  Master master({.outer = {.rule = Axes::Outer::nesterov, .momentum = .9}, .merge = Axes::Merge::radial, .quorum = 2},
                zero);
  master.round(axes, {.tokens = 4, .steps = 1, .factor = .7});
  EXPECT_TRUE(same_bits(peers("radial", zero, axes), master.centre()));
}

// The difference is rounded once to the elements' type, so both sides change by exactly the same amount.
TEST(Elastic, IsOneDifferenceForElementsAndTensors) {
  std::mt19937 random(5);
  const at::Tensor x = draw(random, at::kFloat), c = draw(random, at::kFloat);
  const at::Tensor difference = elastic_difference(.3, x, c);
  for (std::int64_t i = 0; i < many; ++i) {
    const float one = elastic_difference(.3, x.data_ptr<float>()[i], c.data_ptr<float>()[i]);
    ASSERT_EQ(one, difference.data_ptr<float>()[i]);
  }
}

TEST(MergeSums, AreWhatAMemberNeedsToKnow) {
  const MergeSums sums{4, {1 * 3.0 + 3 * 5.0}};
  EXPECT_EQ(sums.factor(3, 2), 1.5);
  EXPECT_EQ(sums.factor(3, 2, 5), .3);
  EXPECT_EQ(sums.factor(3, 2, 0), 0) << "nothing moved";
  EXPECT_EQ(sums.norm(0), 4.5);
  EXPECT_EQ(MergeSums{}.factor(0, 2), 1) << "nobody has trained";
}

}  // namespace
}  // namespace tutti::engine
