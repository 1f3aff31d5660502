// Pictures: schedules and sweeps as SVG, without scripts and background. Colours are visible on light and dark pages.
#pragma once

#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/sweep.hpp"

namespace tutti::planning {

/// Returns a picture of the schedule: ranks from top to bottom, time from left to right, a line for each message, and a
/// dot where a rank folds one. Throws Error{invalid}, with advice, for more than 64 ranks or 4,000 messages.
std::string space_time(const Request& request, const Row& row);

/// Returns a picture of cost over the swept value, both logarithmic, with one line for each algorithm.
std::string sweep_picture(const Request& request, const Sweep& sweep);

}  // namespace tutti::planning
