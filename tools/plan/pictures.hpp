// Pictures: schedules and sweeps as SVG. No scripts, no background: colours that are seen on light and on dark pages.
#pragma once

#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/sweep.hpp"

namespace tutti::planning {

/// Ranks from top to bottom, time from left to right; a line for each message, a dot where one is folded. Throws
/// Error{invalid} that says what to ask for where there are more than 64 ranks or 4,000 messages.
std::string space_time(const Request& request, const Row& row);

/// Cost over the swept value, both logarithmic, one line for each algorithm.
std::string sweep_picture(const Request& request, const Sweep& sweep);

}  // namespace tutti::planning
