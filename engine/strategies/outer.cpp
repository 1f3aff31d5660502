#include "engine/strategies/outer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace tutti::engine::exchange {
namespace {

constexpr double beta2 = 0.999, epsilon = 1e-8;

bool has_velocity(Axes::Outer rule) { return rule != Axes::Outer::none && rule != Axes::Outer::sgd; }
bool has_second(Axes::Outer rule) { return rule == Axes::Outer::delayed_nesterov || rule == Axes::Outer::adam; }

}  // namespace

std::int64_t Outer::memory(Axes::Outer rule, std::int64_t parameters) {
  return parameters * (has_velocity(rule) + has_second(rule));
}

void Outer::start(const at::Tensor& theta) {
  if (has_velocity(numbers_.rule) && !velocity_.defined()) velocity_ = at::zeros_like(theta);
  if (has_second(numbers_.rule) && !second_.defined()) second_ = at::zeros_like(theta);
}

void Outer::step(const at::Tensor& theta, const at::Tensor& delta) {
  const at::NoGradGuard no_grad;
  start(theta);
  ++steps_;
  const double lr = numbers_.lr, momentum = numbers_.momentum;
  switch (numbers_.rule) {
    case Axes::Outer::none: theta.sub_(delta); return;
    case Axes::Outer::heavyball:
      velocity_.mul_(momentum).add_(delta);
      theta.sub_(velocity_, lr);
      return;
    case Axes::Outer::nesterov:
      velocity_.mul_(momentum).add_(delta);
      theta.sub_(delta.add(velocity_, momentum), lr);
      return;
    case Axes::Outer::delayed_nesterov: {
      const auto many = static_cast<double>(numbers_.every);
      theta.sub_(delta, lr / many);
      second_.add_(delta);
      if (steps_ % numbers_.every != 0) return;
      velocity_.mul_(momentum).add_(second_, 1 / many);
      theta.sub_(velocity_, lr * momentum);
      second_.zero_();
      return;
    }
    case Axes::Outer::adam: {
      velocity_.mul_(momentum).add_(delta, 1 - momentum);
      second_.mul_(beta2).addcmul_(delta, delta, 1 - beta2);
      const auto t = static_cast<double>(steps_);
      const double first = 1 - std::pow(momentum, t), root = std::sqrt(1 - std::pow(beta2, t));
      theta.addcdiv_(velocity_, second_.sqrt().div_(root).add_(epsilon), -lr / first);
      return;
    }
    default: theta.sub_(delta, lr); return;
  }
}

std::vector<nn::NamedTensor> Outer::state() const {
  std::vector<nn::NamedTensor> all;
  if (velocity_.defined()) all.emplace_back("velocity", velocity_);
  if (second_.defined()) all.emplace_back("second", second_);
  all.emplace_back("steps", at::scalar_tensor(steps_, at::kLong));
  return all;
}

void Outer::load_state(const std::vector<nn::NamedTensor>& state) {
  for (const auto& [name, tensor] : state) {
    if (name == "velocity") velocity_ = tensor.clone();
    if (name == "second") second_ = tensor.clone();
    if (name == "steps") steps_ = tensor.item<std::int64_t>();
  }
}

}  // namespace tutti::engine::exchange
