// Tensor parallelism on pairs of ranks, data parallelism over the pairs: tutti run -np 4 examples/nn_mesh
#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include "nn/gradient_sync.hpp"
#include "nn/parallel/linear.hpp"
#include "nn/synchronize.hpp"

namespace nn = tutti::nn;

int main() try {
  auto world = tutti::Communicator::from_env();
  const tutti::Mesh mesh(world, {{"data", -1}, {"tensor", world.size() % 2 == 0 ? 2 : 1}});
  if (world.rank() == 0) std::fputs(mesh.describe().c_str(), stdout);
  const nn::Group tensor = nn::group_of(mesh, "tensor");
  torch::nn::Sequential model(nn::ColumnParallelLinear(1, 33, tensor), torch::nn::Tanh(),
                              nn::RowParallelLinear(33, 1, tensor));
  nn::synchronize_parameters(*model, mesh["data"]);  // replicas start with equal parameters
  nn::GradientSync sync(*model, mesh["data"]);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  // This rank's share of 24 samples of the sine.
  const at::Tensor x = at::arange(mesh.rank("data"), 24, mesh.size("data"), at::kFloat).div(4).sub(3).unsqueeze(1);
  double loss = 0;
  for (int step = 0; step < 500; ++step) {
    sync.zero_grad();
    const at::Tensor error = (model->forward(x) - x.sin()).pow(2).mean();
    error.backward();
    sync.finish();
    optimizer.step();
    loss = world.allreduce(error.item<double>(), tutti::avg).wait();
  }
  if (world.rank() == 0) std::printf("mean squared error %.4f\n", loss);
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
