// A custom training loop whose gradients are averaged during backward: tutti run -np 2 examples/nn_sync
#include <ATen/ops/arange.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include "nn/gradient_sync.hpp"
#include "nn/synchronize.hpp"

namespace nn = tutti::nn;

int main() {
  try {
    auto world = tutti::Communicator::from_env();
    torch::nn::Linear model(1, 1);
    nn::synchronize_parameters(*model, world);  // all ranks start with rank 0's parameters
    nn::GradientSync sync(*model, world);
    torch::optim::SGD optimizer(model->parameters(), 0.5);
    // 24 samples with x from 0 up to 1 and y = 3 x + 1, dealt out to the ranks in turn.
    const at::Tensor x = at::arange(world.rank(), 24, world.size(), at::kFloat).div(24).unsqueeze(1), y = x * 3 + 1;
    for (int step = 0; step < 200; ++step) {
      sync.zero_grad();
      sync.weight(static_cast<double>(x.size(0)) / 24);  // this rank's weight in the mean
      (model->forward(x) - y).pow(2).mean().backward();  // the exchange starts during backward
      sync.finish();                                     // gradients are now the means over all samples
      optimizer.step();
    }
    nn::check_replicas(*model, world);
    if (world.rank() == 0)
      std::printf("%d ranks: y = %.2f x + %.2f\n", world.size(), model->weight.item<double>(),
                  model->bias.item<double>());
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
