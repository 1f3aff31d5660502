// A network on tiles of pictures, with LibTorch.
#include <ATen/ATen.h>

#include "nn/parallel/space_layers.hpp"

namespace nn = tutti::nn;
at::Tensor loss(const at::Tensor& output);

void train(const tutti::Mesh& mesh, const at::Tensor& pictures) {
  // the block
}
