// Commands that run on several ranks: detection of a launcher, and the start of a job.
#pragma once

#include <string>
#include <vector>

#include "tutti/settings.hpp"

namespace tutti::tools {

/// Returns true if a launcher has started this process as a rank: if one of the variables of `tutti run`, Open MPI,
/// Hydra, PMIx, Slurm or torchrun is set.
bool inside_a_job();

/// Replaces this process by `tutti run -np RANKS tutti WORDS...` with the backend, transport and network of the
/// settings. `flags`: further ones of `tutti run`. Throws Error{resource}.
[[noreturn]] void become_job(int ranks, const Settings& settings, const std::vector<std::string>& words,
                             const std::vector<std::string>& flags = {});

}  // namespace tutti::tools
