// `tutti run` for ranks that use MPI: the mpiexec of that MPI has to start them.
#pragma once

#include <string>

#include "tools/run/job.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// Returns true if the settings name mpi as a backend or as a transport.
bool wants_mpiexec(const Settings& settings);

/// Replaces this process by `mpiexec`, which starts the job's ranks on this host; empty: the first mpiexec on PATH.
/// With `preload`, tutti performs the collectives that the ranks call through MPI. Returns only by throwing Error.
[[noreturn]] void become_mpiexec(const Job& job, const std::string& mpiexec, bool preload);

}  // namespace tutti::tools
