#include "engine/strategies/flat.hpp"

#include <c10/core/GradMode.h>

#include <map>

#include "nn/tensor.hpp"

namespace tutti::engine::exchange {

Flat::Flat(std::vector<nn::NamedTensor> tensors, Communicator& world, const nn::TensorDevice& tensor_device)
    : tensors_(std::move(tensors)) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors_) count += tensor.numel();
  const at::Tensor& first = tensors_.front().second;
  const DType dtype = nn::dtype_of(first);
  const std::shared_ptr<std::byte> memory =
      tensor_device.allocate(world, static_cast<std::size_t>(count) * size_of(dtype));
  all_ = tensor_device.tensor(memory, 0, {count}, first.scalar_type());
  buffer_ = Buffer(memory.get(), static_cast<std::size_t>(count), dtype, tensor_device.where());
  parts_ = views(all_);
}

std::vector<nn::NamedTensor> Flat::views(const at::Tensor& of) const {
  std::vector<nn::NamedTensor> found;
  std::int64_t at = 0;
  for (const auto& [name, tensor] : tensors_) {
    found.emplace_back(name, of.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  return found;
}

void Flat::read(const at::Tensor& into) const {
  const at::NoGradGuard no_grad;
  const std::vector<nn::NamedTensor> parts = views(into);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].second.copy_(tensors_[i].second);
}

void Flat::write(const at::Tensor& from) const {
  const at::NoGradGuard no_grad;
  const std::vector<nn::NamedTensor> parts = views(from);
  for (std::size_t i = 0; i < parts.size(); ++i) tensors_[i].second.copy_(parts[i].second);
}

std::vector<nn::NamedTensor> trained_of(std::vector<nn::NamedTensor> parameters) {
  std::erase_if(parameters, [](const nn::NamedTensor& one) { return !one.second.requires_grad(); });
  return parameters;
}

std::vector<std::vector<nn::NamedTensor>> by_type(const std::vector<nn::NamedTensor>& tensors) {
  std::map<DType, std::vector<nn::NamedTensor>> sorted;
  for (const nn::NamedTensor& each : tensors) sorted[nn::dtype_of(each.second)].push_back(each);
  std::vector<std::vector<nn::NamedTensor>> groups;
  for (auto& [dtype, group] : sorted) groups.push_back(std::move(group));
  return groups;
}

}  // namespace tutti::engine::exchange
