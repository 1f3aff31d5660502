// The environment of a rank, and where its program is.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// This process's environment without what other launchers left in it, with the job's variables and the rank's own.
std::vector<std::string> rank_environment(const Job& job, int rank);

/// Adds the variables TUTTI_* of this process that hold for ranks on any host, and OMP_NUM_THREADS; those that are
/// there already stay.
void add_own_variables(std::map<std::string, std::string>& variables);

/// The file that execvp() would take. Empty, with errno, where there is none.
std::string find_executable(const std::string& name);

}  // namespace tutti::tools
