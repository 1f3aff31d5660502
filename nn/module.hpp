// A module's tensors by name, each of them once: tied weights are registered in several places.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tutti::nn {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// Leaves out whatever stands in the list already. Only the very same tensor counts as such; tensors of their own over
/// the same memory stay, as each of them has a gradient of its own.
void keep_distinct(std::vector<NamedTensor>& tensors);

/// A module's parameters and its buffers that are defined, in the module's order, under their first names.
std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);
std::vector<NamedTensor> named_buffers(const torch::nn::Module& module);
std::vector<NamedTensor> named_state(const torch::nn::Module& module);  ///< both, parameters first

/// What an optimizer is to be given: from module.parameters() it would step twice for a tied weight.
std::vector<at::Tensor> parameters(const torch::nn::Module& module);

}  // namespace tutti::nn
