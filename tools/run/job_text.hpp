// A job as text, for the agents.
#pragma once

#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// What the agent of a host has to know: words, variables, ranks, stores, mark, silence, and the folder.
std::string job_text(const Job& job, const std::string& folder);
/// Throws Error{protocol}.
Job parse_job(const std::string& text, std::string& folder);

}  // namespace tutti::tools
