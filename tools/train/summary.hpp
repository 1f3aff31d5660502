// The summary at the end of a run.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// Returns a line for people: a heading and its text.
std::string line(const char* heading, const std::string& text);

/// Returns lines for people, each with a heading: the best epoch, the speed and how the time was spent, the folder, and
/// the next commands. `launch` is the command that starts the ranks, such as "tutti train -np 4"; if it is empty, the
/// summary has no command to resume the run.
std::string summary(const engine::Config& config, const engine::TrainResult& result, const std::string& launch);

/// Returns the shell command that resumes the run.
std::string resume_command(const engine::Config& config, const std::string& launch);

}  // namespace tutti::tools
