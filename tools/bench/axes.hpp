// Axes: sizes and bandwidths on logarithmic scales, for both plots.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/comparison.hpp"

namespace tutti::bench {

struct Tick {
  double at = 0;  ///< position on the axis, from 0 to 1
  std::string label;
};

/// A logarithmic axis with ticks at round numbers.
class Axis {
 public:
  /// Ticks at powers of two, at most `most` of them.
  static Axis of_sizes(const std::vector<std::size_t>& sizes, std::size_t most);
  /// Ticks at 1, 2, 5, 10, ... that enclose the values, which must be positive. If there are many, only decades are
  /// labelled.
  static Axis of_bandwidths(const std::vector<double>& values);

  double at(double value) const;  ///< 0 to 1
  const std::vector<Tick>& ticks() const noexcept { return ticks_; }

 private:
  Axis(double low, double high);
  double low_, high_;  // logarithms
  std::vector<Tick> ticks_;
};

/// One size of a series in a plot.
struct Point {
  std::size_t bytes;
  double gb_s;
};
/// The points of a series with a positive bandwidth; others have no place on a logarithmic scale.
std::vector<Point> points(const Comparison& what, const Series& series);

struct Axes {
  Axis sizes, bandwidths;
};
Axes axes_of(const Comparison& what);

/// For example "allreduce of f32 (sum), 4 ranks".
std::string plot_title(const Comparison& what);

}  // namespace tutti::bench
