// A picture of the course of some runs: loss, metric and throughput, each by epoch.
#pragma once

#include <span>
#include <string>

#include "tools/plot/history.hpp"

namespace tutti::plot {

/// As SVG: three panels beside one another, a colour for each run, and below a line for each with its best.
std::string picture(std::span<const History> runs);

}  // namespace tutti::plot
