// OuterOptimizer: the outer optimizer of ranks among equals, which steps a copy of the parameters by merged deltas.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/strategies/outer_rules.hpp"
#include "nn/module.hpp"

namespace tutti::engine::exchange {

/// A rule (engine/strategies/outer_rules.hpp) with what it remembers. Threads: one at a time.
class OuterOptimizer {
 public:
  explicit OuterOptimizer(const OuterRule& rule) : rule_(rule) {}

  /// Takes effect with the next step.
  void set(double lr, double momentum) {
    rule_.lr = lr;
    rule_.momentum = momentum;
  }

  /// Changes `theta` in place. Both tensors have one dimension, and the same size, type and device in each call.
  void step(const at::Tensor& theta, const at::Tensor& delta);

  /// "velocity", "second" (the sum or the squares) and "steps". The first two share the optimizer's memory, and are
  /// float for parameters of a smaller type.
  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);

 private:
  void step_elements(const at::Tensor& theta, const at::Tensor& delta);
  OuterRule rule_;
  at::Tensor velocity_, second_;  // the rule's v and s
  std::int64_t steps_ = 0;
};

}  // namespace tutti::engine::exchange
