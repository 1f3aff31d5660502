// Whether some launcher has started this process as a rank.
#pragma once

namespace tutti::tools {

/// By the variables of `tutti run`, Open MPI, hydra, PMIx, SLURM and torchrun.
bool inside_a_job();

}  // namespace tutti::tools
