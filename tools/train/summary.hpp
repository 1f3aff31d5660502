// The summary at the end of a run.
#pragma once

#include <string>

#include "engine/trainer.hpp"

namespace tutti::tools {

/// A heading and what belongs to it, as a line for people.
std::string line(const char* heading, const std::string& text);

/// Lines for people, each with a heading: the best epoch, speed and how the time was spent, the folder, and the next
/// commands. `launch` is the command with which the ranks are started, "tutti train -np 4"; empty: the run is not to go
/// on.
std::string summary(const engine::Config& config, const engine::TrainResult& result, const std::string& launch);

/// The command that goes on with the run, for a shell.
std::string resume_command(const engine::Config& config, const std::string& launch);

}  // namespace tutti::tools
