// Measures what communication adds to a tower of convolutions over images of 512x512 in tiles. Forward and backward are
// timed with halos that are sent while inner positions are computed, with halos that are waited for, and with zeros as
// halos, which sends nothing. Started as the ranks of a job, which become rows of tiles; rank 0 prints the times.
// tests/training/run reads them.
#include <ATen/Functions.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "nn/parallel/convolution.hpp"

namespace {

namespace nn = tutti::nn;

constexpr int layers = 6, rounds = 9;
constexpr std::int64_t side = 512, samples = 2, channels = 16;

/// Returns the median of the milliseconds until the last rank is done.
double median_ms(tutti::Communicator& world, const std::function<void()>& timed) {
  std::vector<double> times;
  timed();
  for (int round = 0; round < rounds; ++round) {
    world.barrier().wait();
    const auto begin = std::chrono::steady_clock::now();
    timed();
    const double mine = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    times.push_back(world.allreduce(mine, tutti::max).wait());
  }
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  return times[rounds / 2];
}

std::vector<nn::SpaceConv> tower(const nn::Space& space, bool overlap) {
  std::vector<nn::SpaceConv> made;
  for (int i = 0; i < layers; ++i)
    made.push_back(nn::SpaceConv(i == 0 ? 3 : channels, channels, space,
                                 nn::SpaceConvOptions{.kernel = {3}, .padding = {1}, .overlap = overlap, .seed = 1}));
  return made;
}

void step(std::vector<nn::SpaceConv>& convs, const nn::Tile& images) {
  nn::Tile tile = images;
  for (nn::SpaceConv& conv : convs) {
    tile = conv->forward(tile);
    tile.values = tile.values.relu();
  }
  tile.values.pow(2).mean().backward();
}

/// Makes a step with the same arithmetic, and with zeros around each tile.
void step_alone(const std::vector<nn::SpaceConv>& convs, const nn::Tile& images) {
  at::Tensor values = images.values;
  for (const nn::SpaceConv& conv : convs) values = at::conv2d(values, conv->weight, conv->bias, {1, 1}, {1, 1}).relu();
  values.pow(2).mean().backward();
}

}  // namespace

int main() {
  auto world = tutti::Communicator::from_env();
  const nn::Space space(tutti::Mesh(world, {{"height", world.size()}}), 2);
  std::vector<nn::SpaceConv> hidden = tower(space, true), waited = tower(space, false);
  const nn::Tile images = space.cut(at::rand({samples, 3, side, side}));
  const double with = median_ms(world, [&] { step(hidden, images); });
  const double without = median_ms(world, [&] { step(waited, images); });
  const double alone = median_ms(world, [&] { step_alone(hidden, images); });
  if (world.rank() == 0)
    std::printf(
        "%d tiles, %d layers: overlapped %.1f ms, waited for %.1f ms, sending nothing %.1f ms: exposed %.1f %%\n",
        world.size(), layers, with, without, alone, 100 * (with - alone) / with);
}
