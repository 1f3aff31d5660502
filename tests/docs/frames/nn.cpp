// A network's gradients, with LibTorch.
#include <torch/nn/module.h>

#include "nn/gradient_sync.hpp"
#include "nn/sync_batch_norm.hpp"

namespace nn = tutti::nn;
at::Tensor loss(const at::Tensor& batch);

void step(const std::shared_ptr<torch::nn::Module>& model, tutti::Communicator& world, const at::Tensor& batch,
          double mine, double all) {
  // the block
}
