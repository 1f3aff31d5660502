// Prints the plot on a terminal, with a letter for each implementation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/axes.hpp"

namespace tutti::bench {
namespace {

constexpr std::size_t columns = 72, rows = 20;

std::size_t place(double at, std::size_t count) {
  return static_cast<std::size_t>(std::lround(std::clamp(at, 0.0, 1.0) * static_cast<double>(count - 1)));
}

char letter(std::size_t index) { return static_cast<char>('A' + index % 26); }

}  // namespace

void print_plot(const Plot& plot, std::FILE* to) {
  const Axes axes = axes_of(plot);
  std::vector<std::string> grid(rows, std::string(columns, ' '));
  for (std::size_t i = plot.curves.size(); i-- > 0;)
    for (const Point& point : plot.curves[i].points)
      grid[rows - 1 - place(axes.bandwidths.at(point.gb_s), rows)]
          [place(axes.sizes.at(static_cast<double>(point.bytes)), columns)] = letter(i);
  std::vector<std::string> labels(rows);
  for (const Tick& tick : axes.bandwidths.ticks())
    if (std::string& label = labels[rows - 1 - place(tick.at, rows)]; label.empty()) label = tick.label;
  fmt::print(to, "\n{}: bus bandwidth (GB/s) by size, both logarithmic\n", plot.title);
  for (std::size_t row = 0; row < rows; ++row) {
    grid[row].erase(grid[row].find_last_not_of(' ') + 1);
    fmt::print(to, "{:>8} |{}\n", labels[row], grid[row]);
  }
  std::string scale(columns + 8, ' ');
  for (const Tick& tick : axes.sizes.ticks()) scale.replace(place(tick.at, columns), tick.label.size(), tick.label);
  scale.erase(scale.find_last_not_of(' ') + 1);
  fmt::print(to, "{:>8} +{}\n{:>10}{}\n", "", std::string(columns, '-'), "", scale);
  for (std::size_t i = 0; i < plot.curves.size(); ++i)
    fmt::print(to, "{:>10}  {}  ({})\n", letter(i), plot.curves[i].name, plot.curves[i].version);
}

}  // namespace tutti::bench
