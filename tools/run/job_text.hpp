// A job as text, which agents receive.
#pragma once

#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Returns the parts of `job` that an agent needs, and the working directory `folder`. job.hosts are the agent's own
/// host and those below it.
std::string job_text(const Job& job, const std::string& folder);
/// Parses the result of job_text(). Throws Error{protocol} if the text is malformed.
Job parse_job(const std::string& text, std::string& folder);

}  // namespace tutti::tools
