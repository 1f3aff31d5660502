// Parameters and scripted gradients that tests of optimizers share.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nn/module.hpp"

namespace tutti::engine {

using Named = std::vector<nn::NamedTensor>;

/// A matrix and a vector in float64, the same at each call.
inline Named parameters(std::int64_t rows = 3, std::int64_t columns = 4) {
  torch::manual_seed(7);
  const auto make = [](at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble).set_requires_grad(true); };
  Named all{{"fc.weight", make({rows, columns})}, {"fc.bias", make({rows})}};
  return all;
}

/// A gradient for each parameter, computed from its value and the step.
inline void set_gradients(const Named& all, int step) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : all)
    tensor.mutable_grad() = (tensor.detach() * 1.5 + 0.3 * step).sin() + 0.01 * step;
}

inline double difference(const Named& a, const Named& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, (a[i].second.detach() - b[i].second.detach()).abs().max().item<double>());
  return most;
}

}  // namespace tutti::engine
