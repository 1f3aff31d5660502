// A training loop of one's own, with LibTorch.
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <vector>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"

at::Tensor loss(const at::Tensor& batch);

void train(const std::shared_ptr<torch::nn::Module>& module, tutti::Communicator& world,
           std::vector<at::Tensor> my_share, torch::optim::SGD& optimizer) {
  // the block
}
