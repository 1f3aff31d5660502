// A convolutional network on images split into tiles, which finds the brightest quadrant:
// tutti run -np 4 examples/nn_tiles
#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdio>
#include <vector>

#include "nn/parallel/space_layers.hpp"

namespace nn = tutti::nn;

int main() try {
  auto world = tutti::Communicator::from_env();
  const int columns = world.size() % 2 == 0 ? 2 : 1;
  const tutti::Mesh mesh(world, {{"height", world.size() / columns}, {"width", columns}});
  const nn::Space space(mesh, 2);
  nn::SpaceConv first(1, 8, space, nn::SpaceConvOptions{.kernel = {3}, .padding = {1}, .seed = 1});
  nn::SpacePool pool(nn::Pool::max, space, nn::SpacePoolOptions{});
  nn::SpaceConv second(8, 8, space, nn::SpaceConvOptions{.kernel = {3}, .padding = {1}, .seed = 2});
  const std::vector<std::int64_t> half{8, 8};
  nn::SpaceHead head(8, space.even(half), 4, space, nn::SpaceHeadOptions{.seed = 3});
  std::vector<at::Tensor> parameters;
  for (const auto& each : {first->parameters(), second->parameters(), head->parameters()})
    parameters.insert(parameters.end(), each.begin(), each.end());
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));

  torch::manual_seed(1);  // all ranks draw the same images and cut out their tiles
  double right = 0;
  for (int step = 0; step < 150; ++step) {
    const at::Tensor classes = at::randint(4, {32}, at::kLong);
    at::Tensor images = at::rand({32, 1, 2, 8, 2, 8});
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::int64_t quadrant = classes[i].item<std::int64_t>();
      images[i][0].select(0, quadrant / 2).select(1, quadrant % 2).add_(0.5);
    }
    optimizer.zero_grad();
    const nn::Tile tile = space.cut(images.reshape({32, 1, 16, 16}));
    nn::Tile low = first->forward(tile);
    low.values = low.values.relu();
    nn::Tile high = second->forward(pool->forward(low));
    high.values = high.values.relu();
    const at::Tensor scores = head->forward(high);  // the same on every rank
    torch::nn::functional::cross_entropy(scores, classes).backward();
    optimizer.step();
    right = scores.argmax(1).eq(classes).to(at::kDouble).mean().item<double>();
  }
  if (world.rank() == 0)
    std::printf("%s: %.0f %% right; this rank sent %llu bytes in all\n", mesh.name().c_str(), 100 * right,
                static_cast<unsigned long long>(space.group()->traffic().bytes));
  return right > 0.9 ? 0 : 1;
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
