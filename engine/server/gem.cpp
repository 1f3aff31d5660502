// Gradient energy matching (Cerri 2018): the part of a worker's momentum that exceeds the masters' own movement.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "engine/server/server_worker.hpp"

namespace tutti::engine {

at::Tensor gem(const WorkerNumbers& numbers, const at::Tensor& x, const at::Tensor& base, const at::Tensor& centre,
               at::Tensor& momentum, at::Tensor& previous) {
  const at::Tensor moved = (x - base).mul_(numbers.gem_lr);
  momentum.mul_(numbers.gem_momentum).add_(moved);
  const at::Tensor wanted = momentum.abs().mul_(numbers.gem_kappa).sub_((centre - previous).abs());
  previous.copy_(centre);
  return wanted.div_((moved + 1e-12).abs()).clamp_(0, 5).mul_(moved);
}

}  // namespace tutti::engine
