// Numbers of a strategy's state as tensors, as checkpoints keep them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nn/module.hpp"

namespace tutti::engine::exchange {

nn::NamedTensor counted(const std::string& name, const std::vector<std::int64_t>& numbers);
nn::NamedTensor measured(const std::string& name, const std::vector<double>& numbers);

/// Throw Error{invalid} where the state has no tensor of this name and `count`.
std::vector<std::int64_t> counted(const std::vector<nn::NamedTensor>& state, const std::string& name,
                                  std::size_t count);
std::vector<double> measured(const std::vector<nn::NamedTensor>& state, const std::string& name, std::size_t count);

/// Copies into the tensors those of the same names, behind `prefix`, in `state`. Throws Error{invalid} where one is
/// missing.
void copy_from(const std::vector<nn::NamedTensor>& state, const std::vector<nn::NamedTensor>& into,
               const std::string& prefix = "");

}  // namespace tutti::engine::exchange
