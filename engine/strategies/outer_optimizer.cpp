#include "engine/strategies/outer_optimizer.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "collectives/parameter_server/elements.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"
#include "nn/tensor.hpp"

namespace tutti::engine::exchange {
namespace {

template <class T>
std::span<T> elements_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

template <class T>
std::span<T> cut(std::span<T> all, std::size_t begin, std::size_t count) {
  return all.empty() ? all : all.subspan(begin, count);
}

constexpr std::int64_t least_elements_of_a_thread = 1 << 15;

}  // namespace

void OuterOptimizer::step(const at::Tensor& theta, const at::Tensor& delta) {
  const at::NoGradGuard no_grad;
  const auto wide = theta.options().dtype(theta.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const auto ready = [&](at::Tensor& slot) { slot = slot.defined() ? slot.to(wide) : at::zeros_like(theta, wide); };
  if (rule_.slots() > 0) ready(velocity_);
  if (rule_.slots() > 1) ready(second_);
  ++steps_;
  for (const at::Tensor& each : {delta, velocity_, second_})
    if (each.defined() && (each.numel() != theta.numel() || !each.is_contiguous() || each.device() != theta.device()))
      refuse("the outer optimizer remembers another number of parameters: its state is that of another network");
  if (theta.is_cpu()) return step_elements(theta, delta);
  at::Tensor value = theta.to(wide);
  with_outer_rule(rule_, steps_, [&](const auto& rule) { rule(value, delta.to(wide), velocity_, second_); });
  theta.copy_(value);
}

void OuterOptimizer::step_elements(const at::Tensor& theta, const at::Tensor& delta) {
  if (delta.scalar_type() != theta.scalar_type()) refuse("a delta has the type of what it is for");
  with_elements(nn::dtype_of(theta), [&]<class T>(T*) {
    const auto copy = elements_of<T>(theta);
    const auto merged = elements_of<const T>(delta);
    const auto first = elements_of<WideOf<T>>(velocity_), second = elements_of<WideOf<T>>(second_);
    at::parallel_for(0, theta.numel(), least_elements_of_a_thread, [&](std::int64_t begin, std::int64_t end) {
      const auto at = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
      outer_step(rule_, steps_, cut(copy, at, count), cut(merged, at, count), cut(first, at, count),
                 cut(second, at, count));
    });
  });
}

std::vector<nn::NamedTensor> OuterOptimizer::state() const {
  std::vector<nn::NamedTensor> all;
  if (velocity_.defined()) all.emplace_back("velocity", velocity_);
  if (second_.defined()) all.emplace_back("second", second_);
  all.emplace_back("steps", at::scalar_tensor(steps_, at::kLong));
  return all;
}

void OuterOptimizer::load_state(const std::vector<nn::NamedTensor>& state) {
  for (const auto& [name, tensor] : state) {
    if (name == "velocity") velocity_ = tensor.clone();
    if (name == "second") second_ = tensor.clone();
    if (name == "steps") steps_ = tensor.item<std::int64_t>();
  }
}

}  // namespace tutti::engine::exchange
