// Trains a network of its own on images of its own, on all ranks: tutti run -np 2 examples/train_quadrants
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <memory>

#include "engine/trainer.hpp"

namespace engine = tutti::engine;

struct Small : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) {
    return last->forward(at::relu(norm->forward(first->forward(images.flatten(1)))));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(64, 32));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(32));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(32, 4));
};

/// 8x8 pixels of noise. One quadrant is brighter than the others, and which one it is is the class.
engine::DataSplit make_images() {
  engine::DataSplit data = engine::load("random:1x8x8", 800, 1);
  data.classes = 4;
  data.description = "noise with one brighter quadrant";
  for (engine::Dataset* part : {&data.train, &data.test})
    for (std::size_t i = 0; i < part->size(); ++i) {
      const std::size_t quadrant = part->labels[i] %= 4;
      for (std::size_t p = 0; p < 64; ++p) {
        std::uint8_t& pixel = part->pixels[64 * i + p];
        const bool inside = p / 32 == quadrant / 2 && p % 8 / 4 == quadrant % 2;
        pixel = static_cast<std::uint8_t>(pixel / 2 + (inside ? 128 : 0));
      }
    }
  return data;
}

int main() {
  try {
    auto world = tutti::Communicator::from_env();
    engine::Config config;
    config.model.name = "small";  // a name for the first line of the output
    config.epochs = 4;
    const auto module = std::make_shared<Small>();
    const engine::Network network{
        .module = module, .forward = [raw = module.get()](const at::Tensor& images) { return raw->forward(images); }};
    const engine::TrainResult result = engine::train(config, world, network, make_images());
    const double accuracy = 100 * result.epochs.back().accuracy;
    if (world.rank() == 0) std::printf("%d ranks: held-out accuracy %.0f %%\n", world.size(), accuracy);
    return accuracy > 95 ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
