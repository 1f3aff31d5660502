// The environment of a rank, and the search for its program.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Returns this process's environment without other launchers' variables, plus the job's and the rank's variables.
/// `join` is the number of a replacement; 0: it is the rank's first process.
std::vector<std::string> rank_environment(const Job& job, int rank, int join = 0);

/// Adds this process's TUTTI_* variables and OMP_NUM_THREADS, except those that describe one host, rank or job. Keeps
/// existing entries.
void add_own_variables(std::map<std::string, std::string>& variables);

/// Returns the file that execvp() would execute. If there is none, returns an empty string and sets errno.
std::string find_executable(const std::string& name);

}  // namespace tutti::tools
