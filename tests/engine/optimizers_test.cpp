// Optimizers: parameter groups, states, options that change during a run, clipping, memory.
#include "engine/optimizers/optimizer.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "tests/engine/gradients.hpp"
#include "tests/support/refusal.hpp"

// Replaces the function that allocates tensors' memory, and counts large allocations.
static std::atomic<int> large_allocations = 0;
extern "C" int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  using Real = int (*)(void**, std::size_t, std::size_t);
  static const Real real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "posix_memalign"));
  if (bytes >= 1024) ++large_allocations;
  return real(memory, alignment, bytes);
}

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

/// Every optimizer, and options with which some of them keep more state.
const std::vector<std::pair<std::string, Options::Given>> all_rules = [] {
  std::vector<std::pair<std::string, Options::Given>> rules;
  for (const ChoiceInfo& choice : optimizer_table()) rules.emplace_back(choice.name, Options::Given{});
  rules.push_back({"adamw", {{"amsgrad", "true"}}});
  rules.push_back({"rmsprop", {{"momentum", "0.5"}, {"centered", "true"}}});
  rules.push_back({"adadelta", {{"weight_decay", "0.1"}}});
  return rules;
}();

TEST(Optimizers, ContinueBitForBitFromAState) {
  for (const auto& [name, options] : all_rules) {
    const Named whole = parameters(), halves = parameters();
    const auto undisturbed = make_optimizer(name, {{.parameters = whole}}, options);
    auto optimizer = make_optimizer(name, {{.parameters = halves}}, options);
    for (int step = 0; step < 10; ++step) {
      set_gradients(whole, step);
      undisturbed->step();
      if (step == 4) {
        OptimizerState saved = optimizer->state();
        EXPECT_EQ(saved.steps, 4);
        for (auto& [key, tensor] : saved.tensors) tensor = tensor.clone();
        optimizer = make_optimizer(name, {{.parameters = halves}}, options);
        optimizer->load_state(saved);
      }
      set_gradients(halves, step);
      optimizer->step();
    }
    EXPECT_EQ(difference(whole, halves), 0) << name;
    EXPECT_EQ(optimizer->steps(), 10);
  }
}

TEST(Optimizers, StatesAreNamedAndChecked) {
  const Named mine = parameters();
  const auto optimizer = make_optimizer("momentum", {{.parameters = mine}});
  EXPECT_TRUE(optimizer->state().tensors.empty());
  set_gradients(mine, 0);
  optimizer->step();
  OptimizerState state = optimizer->state();
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : state.tensors) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("fc.weight.step", "fc.weight.momentum", "fc.bias.step", "fc.bias.momentum"));

  const Named other{{"conv.weight", torch::zeros({3}, torch::kDouble)}};
  EXPECT_THAT(refusal([&] { make_optimizer("momentum", {{.parameters = other}})->load_state(state); }),
              HasSubstr("4 tensors of parameters that are not here"));
  EXPECT_THAT(refusal([&] { make_optimizer("sgd", {{.parameters = mine}})->load_state(state); }),
              HasSubstr("optimizer momentum, and this is sgd"));
  EXPECT_THAT(refusal([&] { make_optimizer("momentum", {{.parameters = parameters(2, 4)}})->load_state(state); }),
              AllOf(HasSubstr("fc.weight.momentum is Double (3, 4)"), HasSubstr("Double (2, 4)")));
  state.tensors.erase(state.tensors.begin() + 1);
  EXPECT_THAT(refusal([&] { optimizer->load_state(state); }), HasSubstr("lacks fc.weight.momentum"));
  optimizer->load_state({.optimizer = "momentum", .steps = 0, .tensors = {}});
  EXPECT_TRUE(optimizer->state().tensors.empty()) << "as new";
}

TEST(Optimizers, LeaveParametersWithoutAGradientAlone) {
  for (const auto& [name, options] : all_rules) {
    const Named mine = parameters(), before = parameters();
    const auto optimizer = make_optimizer(name, {{.parameters = mine}}, options);
    set_gradients(mine, 1);
    mine[1].second.mutable_grad().reset();
    optimizer->step();
    EXPECT_EQ((mine[1].second - before[1].second).abs().max().item<double>(), 0) << name;
    EXPECT_GT((mine[0].second - before[0].second).abs().max().item<double>(), 0) << name;
    for (const auto& [key, tensor] : optimizer->state().tensors) EXPECT_EQ(key.find("fc.bias"), key.npos) << key;
  }
}

TEST(Optimizers, GroupsHaveFactorsOfTheirOwn) {
  Named mine = parameters();
  mine.emplace_back("norm.weight", torch::ones({3}, torch::kDouble).set_requires_grad(true));
  mine.emplace_back("norm.bias", torch::ones({3}, torch::kDouble).set_requires_grad(true));
  const auto optimizer =
      make_optimizer("sgd", group_parameters(mine, {.bias_lr_factor = 2, .decay_bias = false, .decay_norm = false}),
                     {{"lr", "0.1"}, {"weight_decay", "0.5"}});
  const Named before = parameters();
  for (const auto& [name, tensor] : mine) tensor.mutable_grad() = torch::ones_like(tensor);
  optimizer->step();
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(torch::allclose(mine[0].second, before[0].second - 0.1 * (1 + 0.5 * before[0].second), 0, 1e-15));
  EXPECT_TRUE(torch::allclose(mine[1].second, before[1].second - 0.2, 0, 1e-15));
  EXPECT_TRUE(torch::allclose(mine[2].second, torch::full_like(mine[2].second, 0.9), 0, 1e-15));
  EXPECT_TRUE(torch::allclose(mine[3].second, torch::full_like(mine[3].second, 0.8), 0, 1e-15));
  EXPECT_EQ(group_parameters(mine, {}).size(), 1U);
  // A normalisation's bias follows decay_norm, the bias of another layer does not.
  for (const ParameterGroup& group : group_parameters(mine, {.decay_norm = false}))
    for (const auto& [name, tensor] : group.parameters)
      EXPECT_EQ(group.decay_factor, name.starts_with("norm") ? 0 : 1) << name;
}

TEST(Optimizers, NumbersAreLive) {
  const Named mine = parameters(), others = parameters();
  const auto optimizer = make_optimizer("momentum", {{.parameters = mine}});
  torch::optim::SGD theirs({others[0].second, others[1].second}, torch::optim::SGDOptions(0.01).momentum(0.9));
  for (int step = 0; step < 6; ++step) {
    const double rate = 0.1 / (step + 1);
    optimizer->set_learning_rate(rate);
    optimizer->set("momentum", 0.1 * step);
    auto& their_options = static_cast<torch::optim::SGDOptions&>(theirs.param_groups()[0].options());
    // If the momentum is 0 in the first step, LibTorch keeps no momentum later, so a tiny one replaces 0.
    their_options.lr(rate).momentum(step == 0 ? 1e-300 : 0.1 * step);
    set_gradients(mine, step);
    set_gradients(others, step);
    optimizer->step();
    theirs.step();
  }
  EXPECT_LE(difference(mine, others), 1e-12);
  EXPECT_EQ(optimizer->learning_rate(), 0.1 / 6);
  EXPECT_THAT(refusal([&] { optimizer->set("momentun", 0.5); }), HasSubstr("'momentum'"));
  EXPECT_THAT(refusal([&] { optimizer->set("momentum", std::nan("")); }), HasSubstr("from 0 up"));
  EXPECT_THAT(refusal([&] { optimizer->set("momentum", 1); }), HasSubstr("below 1"));
}

TEST(Optimizers, AllocateNothingAfterTheFirstStep) {
  for (const auto& [name, options] : all_rules) {
    if (name == "muon") continue;  // allocates matrices in each step
    const Named mine = parameters(64, 64);
    Options::Given with_decay = options;
    with_decay["weight_decay"] = "0.1";
    const auto optimizer = make_optimizer(name, {{.parameters = mine}}, with_decay);
    set_gradients(mine, 0);
    const int before = large_allocations;
    optimizer->step();
    EXPECT_GT(large_allocations.load(), before) << name;
    const int after_first = large_allocations;
    for (int step = 0; step < 3; ++step) optimizer->step();
    EXPECT_EQ(large_allocations.load(), after_first) << name;
  }
}

TEST(Optimizers, GradientsAreClippedTogether) {
  const Named mine = parameters();
  EXPECT_EQ(clip_gradient_norm(mine, 1), 0) << "no gradients";
  mine[0].second.mutable_grad() = torch::full({3, 4}, 0.5, torch::kDouble);
  mine[1].second.mutable_grad() = torch::full({3}, 2, torch::kDouble);
  const double norm = std::sqrt(12 * 0.25 + 3 * 4);
  EXPECT_DOUBLE_EQ(gradient_norm(mine), norm);
  EXPECT_DOUBLE_EQ(clip_gradient_norm(mine, 10), norm);
  EXPECT_EQ(mine[0].second.grad()[0][0].item<double>(), 0.5) << "it was within";
  EXPECT_DOUBLE_EQ(clip_gradient_norm(mine, 1.5), norm);
  EXPECT_NEAR(gradient_norm(mine), 1.5, 1e-12);
  EXPECT_NEAR(mine[1].second.grad()[0].item<double>(), 2 * 1.5 / norm, 1e-12);
  mine[1].second.mutable_grad()[0] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(std::isfinite(clip_gradient_norm(mine, 1)));
  EXPECT_NEAR(mine[1].second.grad()[1].item<double>(), 2 * 1.5 / norm, 1e-12) << "left as it was";
}

TEST(Optimizers, RefusalsSayWhatToDo) {
  const Named mine = parameters();
  const auto make = [&](const char* name, const Options::Given& options) {
    return refusal([&] { make_optimizer(name, {{.parameters = mine}}, options); });
  };
  EXPECT_THAT(make("adan", {}), AllOf(HasSubstr("optimizer 'adan'"), HasSubstr("'adam'")));
  EXPECT_THAT(make("adam", {{"beta3", "1"}}), AllOf(HasSubstr("'beta3'"), HasSubstr("'beta")));
  EXPECT_THAT(make("adam", {{"eps", "-1"}}), HasSubstr("expected a number from 0 up"));
  EXPECT_THAT(refusal([&] {
                make_optimizer("sgd", {{.parameters = mine}, {.parameters = mine}});
              }),
              HasSubstr("fc.weight twice"));
  const auto rmsprop = make_optimizer("rmsprop", {{.parameters = mine}});
  rmsprop->set("momentum", 0.5);
  EXPECT_THAT(refusal([&] { rmsprop->step(); }), HasSubstr("made with momentum=0"));
}

}  // namespace
}  // namespace tutti::engine
