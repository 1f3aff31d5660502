// What merging wants to know of a parameter, and the merge of two members' tensors. One thread at a time for each.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace tutti::engine::exchange {

/// Whether a parameter is a table of rows, whose mean direction means nothing.
bool is_embedding(std::string_view parameter);

/// x becomes the mean of x and what came, by their weights, and the weight their sum (GoSGD; Blot et al. 2016).
void gossip(const at::Tensor& x, double& weight, const at::Tensor& came, double came_weight);

}  // namespace tutti::engine::exchange
