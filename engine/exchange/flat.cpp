#include "engine/exchange/flat.hpp"

#include <c10/core/GradMode.h>

#include <map>

#include "nn/tensor.hpp"

namespace tutti::engine::exchange {

Flat::Flat(std::vector<at::Tensor> tensors, Communicator& world, const nn::Site& site) : tensors_(std::move(tensors)) {
  std::int64_t count = 0;
  for (const at::Tensor& each : tensors_) count += each.numel();
  const DType dtype = nn::dtype_of(tensors_.front());
  const std::shared_ptr<std::byte> memory = site.allocate(world, static_cast<std::size_t>(count) * size_of(dtype));
  all_ = site.tensor(memory, 0, {count}, tensors_.front().scalar_type());
  buffer_ = Buffer(memory.get(), static_cast<std::size_t>(count), dtype, site.where());
  std::int64_t at = 0;
  for (const at::Tensor& each : tensors_) {
    parts_.push_back(all_.narrow(0, at, each.numel()).view(each.sizes()));
    at += each.numel();
  }
}

void Flat::take() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) parts_[i].copy_(tensors_[i]);
}

void Flat::give() const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(parts_[i]);
}

std::vector<Flat> flats_of(const std::vector<at::Tensor>& tensors, Communicator& world, const nn::Site& site) {
  std::map<DType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& each : tensors) by_dtype[nn::dtype_of(each)].push_back(each);
  std::vector<Flat> flats;
  for (auto& [dtype, group] : by_dtype) flats.emplace_back(std::move(group), world, site);
  return flats;
}

}  // namespace tutti::engine::exchange
