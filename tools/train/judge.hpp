// `tutti train --validate` and `--predict`: evaluation of a trained network, without changing it.
#pragma once

#include <filesystem>
#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Returns the folder of the run to which `folder` belongs: `folder` is that folder, or one of the run's checkpoints.
/// Throws Error{invalid} if the run's folder has no config.yaml.
std::filesystem::path run_with(const std::filesystem::path& folder);

/// Changes the configuration of a run so that it only evaluates the network in `folder`: nothing is trained or written.
/// Strategy, checkpoints and early stopping get their defaults.
void only_judge(engine::Config& config, const std::string& folder);

/// Prints loss and metrics of the held-out samples on rank 0. Collective.
void print_validation(engine::Trainer& trainer, const Communicator& world);

/// Writes the network's outputs for each held-out sample into `file`, on rank 0. Normally writes a table with the
/// sample's number, the class if the targets are classes, and the outputs. If the name ends in .safetensors, writes the
/// tensor `outputs`, (samples, outputs...). Collective. Throws Error{invalid, resource}.
void write_predictions(engine::Trainer& trainer, const engine::Config& config, const engine::DataSplit& data,
                       const std::filesystem::path& file, Communicator& world);

}  // namespace tutti::tools
