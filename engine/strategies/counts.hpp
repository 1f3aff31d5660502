// Conversions between tensors, which checkpoints store, and the numbers of a strategy's state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nn/module.hpp"

namespace tutti::engine::exchange {

nn::NamedTensor counted(const std::string& name, const std::vector<std::int64_t>& numbers);
nn::NamedTensor measured(const std::string& name, const std::vector<double>& numbers);

/// Return the numbers of a state. Throw Error{invalid} if the state has no tensor of this name with `count` elements.
std::vector<std::int64_t> counted(const std::vector<nn::NamedTensor>& state, const std::string& name,
                                  std::size_t count);
std::vector<double> measured(const std::vector<nn::NamedTensor>& state, const std::string& name, std::size_t count);

/// Copies to each tensor of `into` the tensor of `state` with the name `prefix` plus its own. Throws Error{invalid} if
/// one is missing.
void copy_from(const std::vector<nn::NamedTensor>& state, const std::vector<nn::NamedTensor>& into,
               const std::string& prefix = "");

}  // namespace tutti::engine::exchange
