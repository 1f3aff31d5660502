// Small trainings for tests, with ranks as threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/trainer.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {

inline Config small_config() {
  Config config;
  config.model.name = "mlp";
  config.set("hidden=12");
  config.data.source = "random:1x6x6";
  config.dtype = "float64";
  config.report.progress = "off";
  config.epochs = 3;
  config.batch.global = 10;
  config.data.shift = 1;
  config.set("lr=0.1");
  config.sync.first_bucket_bytes = 128;
  config.sync.bucket_bytes = 1024;
  return config;
}

using HooksOf = std::function<Hooks(int rank)>;
inline Hooks no_hooks(int) { return {}; }

/// Trains one rank per network, and returns each rank's result.
inline std::vector<TrainResult> train_these(const std::vector<Network>& networks, const Config& config,
                                            const DataSplit& data, const HooksOf& hooks = no_hooks) {
  std::vector<TrainResult> results(networks.size());
  tutti::testing::run_ranks(static_cast<int>(networks.size()), tutti::testing::test_settings("shm"),
                            [&](Communicator& world) {
                              const auto r = static_cast<std::size_t>(world.rank());
                              results[r] = train(config, world, networks[r], data, hooks(world.rank()));
                            });
  return results;
}

/// As train_these(), with new networks, made one after the other because they share LibTorch's random generator.
inline std::vector<TrainResult> train_with(
    int size, const Config& config, const DataSplit& data, const HooksOf& hooks = no_hooks,
    const std::function<std::shared_ptr<nn::TensorDevice>(int rank)>& tensor_device = [](int) { return nullptr; }) {
  std::vector<Network> networks;
  for (int r = 0; r < size; ++r) {
    networks.push_back(make_network(config, data.image(), data.classes));
    networks.back().tensor_device = tensor_device(r);
  }
  return train_these(networks, config, data, hooks);
}

}  // namespace tutti::engine
