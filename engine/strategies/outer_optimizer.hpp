// OuterOptimizer: the outer optimizer of runs without masters. It steps a copy of the parameters by merged deltas.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/strategies/outer_rules.hpp"
#include "nn/module.hpp"

namespace tutti::engine::exchange {

/// A rule (engine/strategies/outer_rules.hpp) with its state. One thread at a time.
class OuterOptimizer {
 public:
  explicit OuterOptimizer(const OuterRule& rule) : rule_(rule) {}

  /// Takes effect in the next step.
  void set(double lr, double momentum) {
    rule_.lr = lr;
    rule_.momentum = momentum;
  }

  /// Changes `theta` in place. Both tensors have one dimension. Size, type and device must be the same in each call.
  void step(const at::Tensor& theta, const at::Tensor& delta);

  /// The state: "velocity", "second" (the sum or the squares) and "steps". The first two share the optimizer's memory,
  /// and are float if the parameters have a smaller type.
  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);

 private:
  void step_elements(const at::Tensor& theta, const at::Tensor& delta);
  OuterRule rule_;
  at::Tensor velocity_, second_;  // the rule's v and s
  std::int64_t steps_ = 0;
};

}  // namespace tutti::engine::exchange
