// LibTorch's own lists name a tensor as often as it is registered.
#include "nn/module.hpp"

#include <torch/nn/module.h>

#include <unordered_set>

namespace tutti::nn {
namespace {

/// True the first time that it sees a tensor.
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

void keep_distinct(std::vector<at::Tensor>& tensors) {
  First first;
  std::erase_if(tensors, [&](const at::Tensor& each) { return !first(each); });
}

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  return distinct(module.named_parameters());
}

std::vector<NamedTensor> named_buffers(const torch::nn::Module& module) { return distinct(module.named_buffers()); }

std::vector<at::Tensor> parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> all = module.parameters();
  keep_distinct(all);
  return all;
}

}  // namespace tutti::nn
