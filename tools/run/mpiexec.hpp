// `tutti run` for ranks that use MPI: an MPI's own mpiexec has to start them.
#pragma once

#include <string>

#include "tools/run/job.hpp"
#include "transports/core/settings.hpp"

namespace tutti::tools {

/// Whether the settings name mpi, as a backend or as a transport.
bool wants_mpiexec(const Settings& settings);

/// Becomes `mpiexec` (empty: the first one on PATH), which starts the job's ranks on this host and whose exit code is
/// the job's. `preload`: their collectives of MPI go over tutti. Returns only by throwing Error.
[[noreturn]] void become_mpiexec(const Job& job, const std::string& mpiexec, bool preload);

}  // namespace tutti::tools
