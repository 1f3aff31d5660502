// What an agent looks for before its ranks can start.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tools/run/ranks.hpp"

namespace tutti::tools {

/// Goes to the folder, finds the program and the store; fills in job.file and the variables of the ranks. `gone`: the
/// launcher has, so that there is no use in looking further.
std::optional<Trouble> prepare_job(Job& job, const std::string& folder, const std::function<bool()>& gone);

}  // namespace tutti::tools
