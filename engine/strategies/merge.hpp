// Helpers for merging parameters. Threads: one at a time for each tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace tutti::engine::exchange {

/// Returns true if the parameter's name is that of an embedding table, which has no meaningful direction as a whole.
bool is_embedding(std::string_view parameter);

/// Sets x to the weighted mean of x and `came`, and `weight` to the sum of the weights (GoSGD; Blot et al. 2016).
void gossip(const at::Tensor& x, double& weight, const at::Tensor& came, double came_weight);

}  // namespace tutti::engine::exchange
