// A loop made parallel, with LibTorch.
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <span>

#include "engine/loop/parallelize.hpp"

namespace engine = tutti::engine;
at::Tensor loss(std::span<const std::size_t> samples);

void train(const std::shared_ptr<torch::nn::Module>& model, std::size_t samples, tutti::Communicator& world,
           std::size_t epochs, torch::optim::SGD& optimizer) {
  // the block
}
