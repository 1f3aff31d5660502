// Outer: the outer optimizer, which steps a copy of the parameters by merged deltas.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/strategies/axes.hpp"
#include "nn/module.hpp"

namespace tutti::engine::exchange {

/// theta is the copy, D the merged delta (theta minus the ranks' parameters), g the rate, m the momentum:
///
///     none              theta -= D
///     sgd               theta -= g D
///     heavyball         v = m v + D;  theta -= g v               (SlowMo; Wang et al., ICLR 2020)
///     nesterov          v = m v + D;  theta -= g (D + m v)       (DiLoCo; Douillard et al. 2023)
///     delayed-nesterov  theta -= g D / N;  s += D;  every N-th time: v = m v + s / N, theta -= g m v, s = 0
///                                                                (Liu et al. 2024)
///     adam              Adam on D with betas m and 0.999, epsilon 1e-8
///
/// Threads: one at a time.
class Outer {
 public:
  struct Numbers {
    Axes::Outer rule = Axes::Outer::none;
    double lr = 1, momentum = 0;
    std::int64_t every = 1;  ///< N
  };
  explicit Outer(const Numbers& numbers) : numbers_(numbers) {}

  /// Takes effect with the next step.
  void set(double lr, double momentum) {
    numbers_.lr = lr;
    numbers_.momentum = momentum;
  }

  /// Changes `theta` in place. Both tensors have one dimension, and the same size in each call.
  void step(const at::Tensor& theta, const at::Tensor& delta);

  /// The number of elements of the state for so many parameters.
  static std::int64_t memory(Axes::Outer rule, std::int64_t parameters);

  /// "velocity", "second" (the sum or the squares) and "steps". The first two share the optimizer's memory.
  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);

 private:
  void start(const at::Tensor& theta);
  Numbers numbers_;
  at::Tensor velocity_, second_;  // second: delayed-nesterov's sum, adam's squares
  std::int64_t steps_ = 0;
};

}  // namespace tutti::engine::exchange
