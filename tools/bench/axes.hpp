// Axes: sizes and bandwidths on logarithmic scales, for both plots.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/comparison.hpp"

namespace tutti::bench {

struct Tick {
  double at = 0;  ///< 0 to 1 along the axis
  std::string label;
};

/// A logarithmic axis whose ends are round numbers.
class Axis {
 public:
  /// Powers of two; at most `most` ticks.
  static Axis of_sizes(const std::vector<std::size_t>& sizes, std::size_t most);
  /// 1, 2, 5, 10, ... that enclose the values, which are above 0; labelled by decades where there are many.
  static Axis of_bandwidths(const std::vector<double>& values);

  double at(double value) const;  ///< 0 to 1
  const std::vector<Tick>& ticks() const noexcept { return ticks_; }

 private:
  Axis(double low, double high);
  double low_, high_;  // logarithms
  std::vector<Tick> ticks_;
};

/// The points of a series that have a place on a logarithmic scale.
struct Point {
  std::size_t bytes;
  double gb_s;
};
std::vector<Point> points(const Comparison& what, const Series& series);

struct Axes {
  Axis sizes, bandwidths;
};
Axes axes_of(const Comparison& what);

/// "allreduce of f32 (sum), 4 ranks".
std::string plot_title(const Comparison& what);

}  // namespace tutti::bench
