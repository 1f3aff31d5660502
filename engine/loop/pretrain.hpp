// pretrain(): layers learn to reconstruct their inputs, one after the other, before supervised training.
#pragma once

#include <vector>

#include "engine/trainer.hpp"

namespace tutti::engine {

struct Pretraining {
  std::vector<std::vector<double>> losses;  ///< for each stage and step: the mean cost of a sample
  std::vector<double> head_losses;          ///< for each step of the phase in which only the dense layer learns
};

/// Greedy layer-wise pretraining of a network of model=sparse, over a mesh or not, as config.pretrain says: stage by
/// stage with config's optimizer, schedule and batch, then the dense layer alone. Filters are kept at length 1; all
/// other parameters stay bitwise unchanged. Writes no checkpoints. Collective. Throws Error{invalid} for another model.
Pretraining pretrain(const Config& config, const Communicator& world, const Network& network, const DataSplit& data);

/// True if the configuration asks for pretraining and there is no checkpoint to resume from. Collective.
bool wants_pretraining(const Config& config, Communicator& world);

}  // namespace tutti::engine
