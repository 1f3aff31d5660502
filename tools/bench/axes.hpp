// Axes: logarithmic axes of sizes and bandwidths, for both kinds of plots.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/plot.hpp"

namespace tutti::bench {

struct Tick {
  double at = 0;  ///< position on the axis, from 0 to 1
  std::string label;
};

/// A logarithmic axis with ticks at round numbers.
class Axis {
 public:
  /// Returns an axis with at most `most` ticks, at powers of two.
  static Axis of_sizes(const std::vector<std::size_t>& sizes, std::size_t most);
  /// Returns an axis with ticks at 1, 2, 5, 10, ... that encloses the values, which must be positive. If there are many
  /// ticks, only decades have labels.
  static Axis of_bandwidths(const std::vector<double>& values);

  double at(double value) const;  ///< the position of a value, from 0 to 1
  const std::vector<Tick>& ticks() const noexcept { return ticks_; }

 private:
  Axis(double low, double high);
  double low_, high_;  // logarithms of the two ends
  std::vector<Tick> ticks_;
};

struct Axes {
  Axis sizes, bandwidths;
};
Axes axes_of(const Plot& plot);

}  // namespace tutti::bench
