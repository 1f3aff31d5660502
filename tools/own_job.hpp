// Commands that want ranks: whether this process is one, and how it becomes a job of them.
#pragma once

#include <string>
#include <vector>

#include "transports/core/settings.hpp"

namespace tutti::tools {

/// Whether some launcher has started this process as a rank: by the variables of `tutti run`, Open MPI, hydra, PMIx,
/// SLURM and torchrun.
bool inside_a_job();

/// Replaces this process by `tutti run -np RANKS tutti WORDS...`, which starts the ranks in the way that the settings
/// need: through an mpiexec where they name MPI. With `keep_going` a rank that fails does not end the others. Throws
/// Error{resource}.
[[noreturn]] void become_job(int ranks, const Settings& settings, const std::vector<std::string>& words,
                             bool keep_going = false);

}  // namespace tutti::tools
