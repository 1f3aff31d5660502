// Axes: sizes and bandwidths on logarithmic scales, for both plots.
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

struct Axes {
  Axis sizes, bandwidths;
};
Axes axes_of(const Plot& plot);

}  // namespace tutti::bench
