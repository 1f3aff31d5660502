// A dense network whose weights are split over all ranks, with TorchAD-NN's names:
// tutti run -np 4 examples/nn_mlp_parts
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <vector>

#include "nn/parallel/linear.hpp"

namespace nn = tutti::nn;

int main() try {
  auto world = tutti::Communicator::from_env();
  const nn::Group ranks = nn::group_of(world);
  // The seeds are the same on all ranks: each draws the whole weight and keeps its columns.
  nn::RowParallelLinear low = nn::MPInitialLinear(16, 64, ranks, {.seed = 1, .name = "low"});
  nn::RowParallelLinear high = nn::MPBaseLinear(64, 1, ranks, {.seed = 2, .name = "high"});
  std::vector<at::Tensor> parameters = low->parameters();
  for (const at::Tensor& each : high->parameters()) parameters.push_back(each);
  torch::optim::SGD optimizer(parameters, 0.05);

  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);  // all ranks have all samples
  const at::Tensor x = at::rand({256, 16}, generator), wanted = x.pow(2).sum(1, true).sub(16.0 / 3);
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    ranks->reset_traffic();
    optimizer.zero_grad();
    const at::Tensor error = (high->forward(nn::MPTanh(low->forward(x))) - wanted).pow(2).mean();
    error.backward();
    optimizer.step();
    loss = error.item<double>();
  }
  const nn::Traffic sums = ranks->traffic(tutti::Kind::allreduce), parts = ranks->traffic(tutti::Kind::allgather);
  if (world.rank() == 0)
    std::printf("mean squared error %.4f; a step: %llu allreduces of %llu bytes, %llu allgather of %llu\n", loss,
                static_cast<unsigned long long>(sums.calls), static_cast<unsigned long long>(sums.bytes),
                static_cast<unsigned long long>(parts.calls), static_cast<unsigned long long>(parts.bytes));
  return loss < 0.5 ? 0 : 1;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
