// Trains a user-defined network on a user-defined data set, on all ranks: tutti run -np 2 examples/train_quadrants
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

/// Noise images of 8x8 pixels, whose class is the quadrant that is brighter than the others. A data set implements
/// size() and get(); this one creates each sample on demand.
class Quadrants : public engine::Dataset {
 public:
  explicit Quadrants(std::size_t count, std::uint64_t seed) : count_(count), seed_(seed) {}
  std::size_t size() const override { return count_; }
  engine::Sample get(std::size_t i) const override {
    const auto quadrant = static_cast<std::int64_t>(i % 4);
    auto random = engine::Random::keyed(seed_, i);
    std::vector<float> pixels(64);
    for (std::int64_t p = 0; p < 64; ++p) {
      const bool inside = p / 32 == quadrant / 2 && p % 8 / 4 == quadrant % 2;
      pixels[static_cast<std::size_t>(p)] = static_cast<float>(random.below(100)) / 100 + (inside ? 1.0F : 0.0F);
    }
    engine::Sample sample;
    sample["image"] = engine::Array(std::move(pixels), {1, 8, 8});
    sample["label"] = engine::Array::scalar(quadrant);
    return sample;
  }

 private:
  std::size_t count_;
  std::uint64_t seed_;
};

engine::DataSplit make_images() {
  engine::DataSplit data;
  data.train = std::make_shared<Quadrants>(800, 1);
  data.test = std::make_shared<Quadrants>(100, 2);
  data.classes = 4;
  data.description = "noise with one brighter quadrant";
  return data;
}

int main() {
  try {
    auto world = tutti::Communicator::from_env();
    engine::Config config;
    config.model.name = "small";  // printed in the first line of the output
    config.epochs = 4;
    const auto module = std::make_shared<Small>();
    const engine::Network network{
        .module = module, .forward = [raw = module.get()](const at::Tensor& images) { return raw->forward(images); }};
    const engine::TrainResult result = engine::train(config, world, network, make_images());
    const double accuracy = 100 * result.epochs.back().metric("accuracy");
    if (world.rank() == 0) std::printf("%d ranks: held-out accuracy %.0f %%\n", world.size(), accuracy);
    return accuracy > 95 ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
