// What a run's folder says to who goes on with it.
#pragma once

#include <filesystem>

#include "engine/config.hpp"

namespace tutti::engine {

/// Reads DIR/config.yaml over `config`. The values keep the sources that are noted there; options that were defaults
/// are not set. Throws Error{invalid} with file and line.
void read_run(Config& config, const std::filesystem::path& folder);

/// Removes the options that are in `before` and still the same, if `config` has chosen another entry, which does not
/// have them.
void forget_options_of_others(Config& config, const Config& before);

/// True if the run in `folder` has a checkpoint.
bool has_checkpoint(const std::filesystem::path& folder);

/// The number of ranks that the run in `folder` had last; 0 if nothing is known of it.
int ranks_of_run(const std::filesystem::path& folder);

}  // namespace tutti::engine
