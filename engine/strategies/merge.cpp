#include "engine/strategies/merge.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

namespace tutti::engine::exchange {

bool is_embedding(std::string_view parameter) {
  return parameter.find("embed") != parameter.npos || parameter.find("wte") != parameter.npos ||
         parameter.find("wpe") != parameter.npos;
}

void gossip(const at::Tensor& x, double& weight, const at::Tensor& came, double came_weight) {
  const at::NoGradGuard no_grad;
  const double total = weight + came_weight;
  x.mul_(weight / total).add_(came, came_weight / total);
  weight = total;
}

}  // namespace tutti::engine::exchange
