// The tensors of a module by name. A tensor that is registered several times (tied weights) is listed once.
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

/// Removes repetitions of a tensor and keeps its first entry. Only the same tensor object counts as a repetition;
/// different tensors over the same memory are kept, because each has its own gradient.
void keep_distinct(std::vector<NamedTensor>& tensors);

/// The defined parameters, or buffers, of a module in registration order, each under its first name.
std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);
std::vector<NamedTensor> named_buffers(const torch::nn::Module& module);
std::vector<NamedTensor> named_state(const torch::nn::Module& module);  ///< parameters, then buffers

/// The parameters to pass to an optimizer, each once. module.parameters() lists a tied weight twice, so an optimizer
/// would update it twice.
std::vector<at::Tensor> parameters(const torch::nn::Module& module);

}  // namespace tutti::nn
