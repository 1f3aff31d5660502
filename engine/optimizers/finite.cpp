#include "engine/optimizers/finite.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace tutti::engine {
namespace {

/// A finite number times 0 is 0; an infinite number or NaN times 0 is NaN. The lanes permit vector instructions.
template <class Number>
bool are_finite(std::span<const Number> numbers) noexcept {
  constexpr std::size_t lanes = 32, block = 64 * lanes;
  const Number* next = numbers.data();
  for (std::size_t left = numbers.size(); left > 0;) {
    const std::size_t some = std::min(left, block);
    Number sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= some; i += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += next[i + lane] * Number(0);
    for (std::size_t lane = 0; i < some; ++i, ++lane) sums[lane] += next[i] * Number(0);
    if (!std::all_of(sums, sums + lanes, [](Number sum) { return sum == 0; })) return false;
    next += some;
    left -= some;
  }
  return true;
}

template <class Number>
std::span<const Number> numbers_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<Number>(), static_cast<std::size_t>(tensor.numel())};
}

bool is_finite(const at::Tensor& tensor) {
  if (tensor.is_sparse()) return is_finite(tensor._values());
  if (tensor.is_cpu() && tensor.is_non_overlapping_and_dense()) {
    if (tensor.scalar_type() == at::kFloat) return all_finite(numbers_of<float>(tensor));
    if (tensor.scalar_type() == at::kDouble) return all_finite(numbers_of<double>(tensor));
  }
  return at::isfinite(tensor).all().item<bool>();
}

}  // namespace

bool all_finite(std::span<const float> numbers) noexcept { return are_finite(numbers); }
bool all_finite(std::span<const double> numbers) noexcept { return are_finite(numbers); }

bool gradients_are_finite(const std::vector<nn::NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> largest;  // the largest absolute value of each gradient on a device: one wait for all
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    if (!gradient.is_cpu() && !gradient.is_sparse())
      largest.push_back(gradient.abs().max().to(at::kDouble));
    else if (!is_finite(gradient))
      return false;
  }
  return largest.empty() || at::isfinite(at::stack(largest)).all().item<bool>();
}

}  // namespace tutti::engine
