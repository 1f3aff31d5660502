// Preparation of a host before its ranks start.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tools/run/ranks.hpp"

namespace tutti::tools {

/// Enters `folder`, finds the program and the store, and sets job.file and the ranks' variables. Returns why the ranks
/// cannot be started, or nothing. `gone` returns true once the launcher has gone; the search then ends.
std::optional<Trouble> prepare_job(Job& job, const std::string& folder, const std::function<bool()>& gone);

}  // namespace tutti::tools
