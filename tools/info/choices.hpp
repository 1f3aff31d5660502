// Choices: which algorithm a communicator on several hosts takes for each collective and size, and why.
#pragma once

#include "tutti/settings.hpp"

namespace tutti::tools {

/// Prints, for every collective and some sizes, the algorithms with the least cost on this many ranks, in blocks on
/// this many hosts, by the network that the settings or measured rules describe. Throws Error{invalid} for hosts that
/// ranks cannot be divided among.
void print_choices(int ranks, int hosts, const Settings& settings);

}  // namespace tutti::tools
