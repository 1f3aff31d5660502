// The environment of a rank, and the search for its program.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// This process's environment without the variables of other launchers, plus the job's variables and the rank's own.
std::vector<std::string> rank_environment(const Job& job, int rank);

/// Adds this process's TUTTI_* variables and OMP_NUM_THREADS, except those of one host, rank or job. Existing entries
/// are kept.
void add_own_variables(std::map<std::string, std::string>& variables);

/// The file that execvp() would execute. Returns an empty string and sets errno if there is none.
std::string find_executable(const std::string& name);

}  // namespace tutti::tools
