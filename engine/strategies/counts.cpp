#include "engine/strategies/counts.hpp"

#include <ATen/Functions.h>

#include <algorithm>

#include "tutti/status.hpp"

namespace tutti::engine::exchange {
namespace {

at::Tensor find(const std::vector<nn::NamedTensor>& state, const std::string& name, std::size_t count,
                at::ScalarType type) {
  const auto found = std::ranges::find(state, name, &nn::NamedTensor::first);
  if (found == state.end() || found->second.numel() != static_cast<std::int64_t>(count))
    throw Error(Code::invalid, "the state that was kept has no '" + name +
                                   "' of this strategy's size: begin without checkpoint.resume");
  return found->second.to(at::kCPU, type).contiguous();
}

}  // namespace

nn::NamedTensor counted(const std::string& name, const std::vector<std::int64_t>& numbers) {
  return {name, at::tensor(numbers, at::TensorOptions().dtype(at::kLong))};
}

nn::NamedTensor measured(const std::string& name, const std::vector<double>& numbers) {
  return {name, at::tensor(numbers, at::TensorOptions().dtype(at::kDouble))};
}

std::vector<std::int64_t> counted(const std::vector<nn::NamedTensor>& state, const std::string& name,
                                  std::size_t count) {
  const at::Tensor found = find(state, name, count, at::kLong);
  return {found.data_ptr<std::int64_t>(), found.data_ptr<std::int64_t>() + count};
}

std::vector<double> measured(const std::vector<nn::NamedTensor>& state, const std::string& name, std::size_t count) {
  const at::Tensor found = find(state, name, count, at::kDouble);
  return {found.data_ptr<double>(), found.data_ptr<double>() + count};
}

void copy_from(const std::vector<nn::NamedTensor>& state, const std::vector<nn::NamedTensor>& into,
               const std::string& prefix) {
  for (const auto& [name, tensor] : into) {
    const auto found = std::ranges::find(state, prefix + name, &nn::NamedTensor::first);
    if (found == state.end())
      throw Error(Code::invalid, "the state that was kept has no '" + name + "': begin without checkpoint.resume");
    tensor.copy_(found->second);
  }
}

}  // namespace tutti::engine::exchange
