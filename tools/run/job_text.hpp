// A job as text, for the agents.
#pragma once

#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// The parts of `job` that an agent needs, of which job.hosts are its own and those below, and the working directory
/// `folder`.
std::string job_text(const Job& job, const std::string& folder);
/// Parses the result of job_text(). Throws Error{protocol} if the text is malformed.
Job parse_job(const std::string& text, std::string& folder);

}  // namespace tutti::tools
