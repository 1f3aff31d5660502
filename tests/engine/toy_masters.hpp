// Whole runs with masters on a data set that is quickly learned. Ranks are threads.
#pragma once

#include <string>
#include <vector>

#include "engine/data/formats/source.hpp"
#include "engine/server/masters.hpp"
#include "tests/engine/play.hpp"
#include "tests/engine/runs.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::engine {

using Words = std::vector<std::string>;

/// Two linearly separable clusters.
inline DataSplit toy() { return load("random:1x4x4", 96, 3); }

inline Config toy_config(const Words& words) {
  Config config;
  for (const char* word :
       {"model=mlp", "batch=16", "epochs=2", "run=none", "report.progress=none", "optimizer.lr=0.05"})
    config.set(word);
  for (const std::string& word : words) config.set(word);
  return config;
}

inline Values trained_alone(const Config& config) {
  Network network = make_network(config, toy());
  train(config, Communicator::connect({}), network, toy());
  return values_of(tensors_of(network).parameters);
}

/// Returns the network of the reporting worker after training: the masters' parameters.
inline Values trained_by_masters(const Config& config, int ranks) {
  const std::vector<Network> networks = networks_for(ranks, config, toy());
  Values found;
  tutti::testing::run_ranks(ranks, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const MastersResult result = train_by_masters(config, world, networks[rank], toy());
    if (result.tells) found = values_of(tensors_of(networks[rank]).parameters);
  });
  return found;
}

}  // namespace tutti::engine
