// The command line and the settings with which ranks of `tutti train` start.
#pragma once

#include <string>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// Returns the command that starts ranks on the same hosts as this job's.
std::string launch_of(const Communicator& world, const std::string& net);

/// Returns the arguments without -np and its value, for the ranks that will be started.
std::vector<std::string> without_ranks(const std::vector<std::string>& arguments);

/// Returns the settings from the environment. If `net` is not empty, it replaces the setting `net`.
Settings settings_of(const std::string& net);

/// Returns the link that the setting `net` describes, in the format of --link; empty if latency or rate is missing.
std::string link_of(const Settings& settings);

/// Returns the value of --net, which must be known before the ranks connect.
std::string net_of(const std::vector<std::string>& arguments);

}  // namespace tutti::tools
