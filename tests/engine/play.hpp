// Plays a strategy with scripted gradients instead of a network. Ranks are threads.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/optimizers/optimizer.hpp"
#include "engine/strategies/strategy.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {

using Values = std::vector<double>;

/// The results of one rank.
struct Played {
  std::vector<Values> after;  ///< by step: all parameters after it, concatenated
  Values settled;             ///< all parameters after settle()
  ExchangeStats stats;
  std::vector<nn::NamedTensor> state;  ///< after settle(), copied
  Values buffers;
};

struct Play {
  int ranks = 2;
  std::vector<std::string> words;  ///< the configuration
  std::vector<nn::NamedTensor> begin;
  std::size_t steps = 1;
  std::string optimizer = "sgd";
  double lr = 1;
  /// Returns a rank's gradient of the parameter `name`, which has the values `value`, in step `step` (from 0).
  std::function<at::Tensor(int rank, std::size_t step, const std::string& name, const at::Tensor& value)> gradient;
  /// If set, the initial values of a rank's parameter.
  std::function<at::Tensor(int rank, const std::string& name, const at::Tensor& value)> own = nullptr;
  std::vector<nn::NamedTensor> buffers = {};  ///< each rank has them times rank + 1
};

inline at::Tensor vector_of(const Values& values) { return torch::tensor(values, torch::kDouble); }

inline Values values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).reshape({-1}).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

inline Values values_of(const std::vector<nn::NamedTensor>& tensors) {
  Values all;
  for (const auto& [name, tensor] : tensors)
    for (const double value : values_of(tensor)) all.push_back(value);
  return all;
}

inline Config play_config(const std::vector<std::string>& words) {
  Config config;
  config.set("dtype=float64");
  for (const std::string& word : words) config.set(word);
  return config;
}

inline Played play_rank(const Play& play, Communicator& world) {
  std::vector<nn::NamedTensor> parameters;
  for (const auto& [name, tensor] : play.begin)
    parameters.emplace_back(name,
                            (play.own ? play.own(world.rank(), name, tensor) : tensor).clone().set_requires_grad(true));
  std::vector<nn::NamedTensor> buffers;
  for (const auto& [name, tensor] : play.buffers) buffers.emplace_back(name, tensor * (world.rank() + 1));
  const auto optimizer =
      make_optimizer(play.optimizer, {{.parameters = parameters}}, {{"lr", std::to_string(play.lr)}});
  const auto strategy = make_strategy(play_config(play.words), {.world = world,
                                                                .tensor_device = std::make_shared<nn::TensorDevice>(),
                                                                .parameters = parameters,
                                                                .buffers = buffers,
                                                                .optimizer = *optimizer});
  Played found;
  for (std::size_t step = 0; step < play.steps; ++step) {
    strategy->begin_step({.step = step,
                          .learning_rate = play.lr,
                          .count = 1,
                          .global_count = static_cast<std::size_t>(world.size()),
                          .pieces = 1});
    const double weight = strategy->begin_piece(0, 1);
    at::Tensor loss = torch::zeros({}, torch::kDouble);
    for (const auto& [name, tensor] : parameters)
      loss = loss + (tensor * play.gradient(world.rank(), step, name, tensor.detach())).sum();
    (loss * weight).backward();
    strategy->end_piece(0);
    strategy->end_backward();
    optimizer->step();
    strategy->end_step();
    found.after.push_back(values_of(parameters));
  }
  strategy->settle();
  found.settled = values_of(parameters);
  found.stats = strategy->stats();
  found.buffers = values_of(buffers);
  for (const auto& [name, tensor] : strategy->state()) found.state.emplace_back(name, tensor.clone());
  return found;
}

/// Plays on all ranks, and returns the results by rank.
inline std::vector<Played> played(const Play& play) {
  std::vector<Played> all(static_cast<std::size_t>(play.ranks));
  tutti::testing::run_ranks(play.ranks, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    all[static_cast<std::size_t>(world.rank())] = play_rank(play, world);
  });
  return all;
}

inline void expect_near(const Values& got, const Values& wanted, double most = 1e-12) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], most) << "value " << i;
}

}  // namespace tutti::engine
