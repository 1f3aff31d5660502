// Layers in parts, with LibTorch.
#include <ATen/ATen.h>

#include "nn/parallel/linear.hpp"

namespace nn = tutti::nn;

void apply(const nn::Group& tensor, const at::Tensor& x, at::Tensor& y) {
  // the block
}
