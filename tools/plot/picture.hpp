// A picture of the course of several runs: loss, metric and throughput by epoch.
#pragma once

#include <span>
#include <string>

#include "tools/plot/history.hpp"

namespace tutti::plot {

/// Returns SVG with the panels side by side, one colour for each run, and a legend with each run's best value below.
std::string picture(std::span<const History> runs);

}  // namespace tutti::plot
