// Reads what a run's folder says about the run, in order to resume it.
#pragma once

#include <filesystem>

#include "engine/config.hpp"

namespace tutti::engine {

/// Reads config.yaml in `folder` over `config`. The file's comments say where each value came from; Config::sources
/// gets these texts. Options with their default values are not set. Throws Error{invalid} with file and line.
void read_run(Config& config, const std::filesystem::path& folder);

/// For a section in which `config` selects another entry than `before`: removes options that have the same value in
/// both and that the selected entry does not have.
void forget_options_of_others(Config& config, const Config& before);

/// True if the run in `folder` has a checkpoint.
bool has_checkpoint(const std::filesystem::path& folder);

/// The number of ranks of the run in `folder`, when it last ran; 0 if that is not known.
int ranks_of_run(const std::filesystem::path& folder);

}  // namespace tutti::engine
