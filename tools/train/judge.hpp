// `tutti train --validate` and `--predict`: a network that was trained is looked at, and not changed.
#pragma once

#include <filesystem>
#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// The folder of the run to which `folder` belongs: itself, or of one of its checkpoints. Throws Error{invalid} if
/// there is no config.yaml in it.
std::filesystem::path run_with(const std::filesystem::path& folder);

/// Changes the configuration of a run so that it only evaluates the network in `folder`: nothing is trained or written,
/// and strategy, checkpoints and early stopping have their defaults.
void only_judge(engine::Config& config, const std::string& folder);

/// Prints loss and metrics of the held-out samples on rank 0. Collective.
void print_validation(engine::Trainer& trainer, const Communicator& world);

/// Writes what the network says of each held-out sample into `file`, on rank 0: a table of the sample's number, the
/// class where the targets are classes, and the outputs; or the tensor `outputs`, (samples, outputs...), if the name
/// ends in .safetensors. Collective. Throws Error{invalid, resource}.
void write_predictions(engine::Trainer& trainer, const engine::Config& config, const engine::DataSplit& data,
                       const std::filesystem::path& file, Communicator& world);

}  // namespace tutti::tools
