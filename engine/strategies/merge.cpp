#include "engine/strategies/merge.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

namespace tutti::engine::exchange {

bool is_embedding(std::string_view parameter) {
  return parameter.find("embed") != parameter.npos || parameter.find("wte") != parameter.npos ||
         parameter.find("wpe") != parameter.npos;
}

at::Tensor weighted_mean(std::span<const at::Tensor> deltas, std::span<const double> weights) {
  const at::NoGradGuard no_grad;
  at::Tensor total = at::zeros_like(deltas[0]);
  double weight = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    total.add_(deltas[i], weights[i]);
    weight += weights[i];
  }
  return total.div_(weight);
}

at::Tensor radial_mean(std::span<const at::Tensor> deltas, std::span<const double> weights) {
  const at::NoGradGuard no_grad;
  at::Tensor direction = at::zeros_like(deltas[0]);
  double length = 0, weight = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    const auto own = deltas[i].norm().item<double>();
    if (own > 0) direction.add_(deltas[i], weights[i] / own);
    length += weights[i] * own;
    weight += weights[i];
  }
  const auto agreement = direction.norm().item<double>();
  if (agreement <= 1e-12 * weight) return weighted_mean(deltas, weights);
  return direction.mul_(length / weight / agreement);
}

at::Tensor majority_vote(std::span<const at::Tensor> deltas) {
  const at::NoGradGuard no_grad;
  at::Tensor votes = at::zeros_like(deltas[0]);
  for (const at::Tensor& each : deltas) votes.add_(each.sign());
  return votes.sign();
}

void elastic(const at::Tensor& x, const at::Tensor& centre, double x_part, double centre_part) {
  const at::NoGradGuard no_grad;
  const at::Tensor apart = x.sub(centre);
  x.sub_(apart, x_part);
  centre.add_(apart, centre_part);
}

void gossip(const at::Tensor& x, double& weight, const at::Tensor& came, double came_weight) {
  const at::NoGradGuard no_grad;
  const double total = weight + came_weight;
  x.mul_(weight / total).add_(came, came_weight / total);
  weight = total;
}

void mix(const at::Tensor& local, const at::Tensor& global, double part) {
  const at::NoGradGuard no_grad;
  local.mul_(1 - part).add_(global, part);
}

std::vector<std::int64_t> steps_by_speed(std::span<const double> speeds, std::int64_t every) {
  const double fastest = *std::ranges::max_element(speeds);
  std::vector<std::int64_t> steps;
  for (const double speed : speeds)
    steps.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(every) * speed / fastest)));
  return steps;
}

}  // namespace tutti::engine::exchange
