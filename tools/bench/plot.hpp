// Plot: the bandwidths of one or several implementations by size, as SVG and for a terminal.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace tutti::bench {

/// One size of a curve.
struct Point {
  std::size_t bytes;
  double gb_s;  ///< positive, because the axis is logarithmic
};

/// One implementation.
struct Curve {
  std::string name, version, settings;
  std::vector<Point> points;
};

struct Plot {
  std::string title;               ///< "allreduce of f32 (sum), 4 ranks"
  std::vector<std::size_t> sizes;  ///< the measured sizes, at least one
  std::vector<Curve> curves;       ///< the first curves are drawn on top
};

void print_svg(const Plot& plot, std::FILE* to);
void print_plot(const Plot& plot, std::FILE* to);  ///< prints characters, for a terminal

}  // namespace tutti::bench
