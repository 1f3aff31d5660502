// LibTorch's named_parameters() and named_buffers() list a tensor once per registration.
#include "nn/module.hpp"

#include <torch/nn/module.h>

#include <unordered_set>

namespace tutti::nn {
namespace {

/// Returns true the first time that it is called with a tensor.
class First {
 public:
  bool operator()(const at::Tensor& tensor) { return seen_.insert(tensor.unsafeGetTensorImpl()).second; }

 private:
  std::unordered_set<const c10::TensorImpl*> seen_;
};

template <class Items>
std::vector<NamedTensor> distinct(const Items& items) {
  std::vector<NamedTensor> all;
  First first;
  for (const auto& item : items)
    if (item.value().defined() && first(item.value())) all.emplace_back(item.key(), item.value());
  return all;
}

}  // namespace

void keep_distinct(std::vector<NamedTensor>& tensors) {
  First first;
  std::erase_if(tensors, [&](const NamedTensor& each) { return !first(each.second); });
}

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  return distinct(module.named_parameters());
}

std::vector<NamedTensor> named_buffers(const torch::nn::Module& module) { return distinct(module.named_buffers()); }

std::vector<NamedTensor> named_state(const torch::nn::Module& module) {
  std::vector<NamedTensor> state = named_parameters(module);
  for (NamedTensor& each : named_buffers(module)) state.push_back(std::move(each));
  return state;
}

std::vector<at::Tensor> parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (auto& [name, tensor] : named_parameters(module)) all.push_back(std::move(tensor));
  return all;
}

}  // namespace tutti::nn
