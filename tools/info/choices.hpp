// Choices: which algorithm a communicator on several hosts chooses for each collective and size, and why.
#pragma once

#include "tutti/settings.hpp"

namespace tutti::tools {

/// Prints the cheapest algorithms for every collective and some sizes. The ranks are on this many hosts, in blocks;
/// costs are those of the network that the settings or measured rules describe. Throws Error{invalid} if the ranks
/// cannot be divided among the hosts.
void print_choices(int ranks, int hosts, const Settings& settings);

}  // namespace tutti::tools
