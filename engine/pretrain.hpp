// pretrain: layers learn to rebuild what they see, one after the other, before a network learns classes.
#pragma once

#include <vector>

#include "engine/trainer.hpp"

namespace tutti::engine {

struct Pretraining {
  std::vector<std::vector<double>> losses;  ///< of each stage, step by step: the mean of what samples cost
  std::vector<double> head_losses;          ///< while the dense layer alone learned
};

/// What config.pretrain asks for, of a network of model=sparse, over a mesh or not: greedily, stage by stage, with
/// config's optimizer, schedule and batch; then the head alone. Filters keep the length 1. Whatever does not learn
/// stays as it is, bit for bit. Keeps no checkpoints. Collective. Throws Error{invalid} for another model.
Pretraining pretrain(const Config& config, const Communicator& world, const Network& network, const DataSplit& data);

/// Whether config asks for it, and there is no checkpoint that a run goes on from. Collective.
bool wants_pretraining(const Config& config, Communicator& world);

}  // namespace tutti::engine
