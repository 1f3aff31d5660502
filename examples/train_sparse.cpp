// Pretrains layers of local filters to reconstruct images in tiles, then the head, then trains the whole network:
// tutti run -np 2 examples/train_sparse
#include <cstdio>

#include "engine/data/formats/source.hpp"
#include "engine/loop/pretrain.hpp"
#include "engine/models/model.hpp"

namespace engine = tutti::engine;

int main() {
  try {
    auto world = tutti::Communicator::from_env();
    engine::Config config;
    for (const char* word :
         {"model=sparse", "model.filters=4,4", "data=random:1x16x16", "random_samples=256", "batch=32", "epochs=2",
          "optimizer=momentum", "lr=0.001", "pretrain.epochs=3", "pretrain.head_epochs=1", "pretrain.sparsity=0.01",
          "pretrain.tied=false", "parallel=halopar", "run=none"})
      config.set(word);
    const engine::DataSplit data = engine::load(config.data.source, 256, 1);
    engine::Network network = engine::make_network(config, data);
    engine::spread(network, config, data, world);
    const engine::Pretraining done = engine::pretrain(config, world, network, data);
    const engine::TrainResult result = engine::train(config, world, network, data);
    for (std::size_t i = 0; i < done.losses.size() && world.rank() == 0; ++i)
      std::printf("filters %zu: cost of an image %.3f, then %.3f\n", i + 1, done.losses[i].front(),
                  done.losses[i].back());
    if (world.rank() == 0) std::printf("loss %.3f, then %.3f\n", result.losses.front(), result.losses.back());
    return done.losses[0].back() < done.losses[0].front() ? 0 : 1;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
