// Axis: the range of the horizontal or vertical direction of a plot, with ticks at round numbers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::plot {

struct Tick {
  double value = 0;
  std::string label;
};

class Axis {
 public:
  /// Returns an axis from a round number at or below `least` to one at or above `most`, with about `parts` intervals of
  /// 1, 2 or 5 times a power of 10. A single value gets some space around it.
  static Axis linear(double least, double most, int parts = 5);

  /// Returns an axis between powers of 10 or, for a small range, 1, 2 and 5 times these. `least` must be positive.
  static Axis logarithmic(double least, double most);

  /// Returns an axis from `least` to `most` with at most `ticks` ticks, at powers of 2. A single value gets some space
  /// around it. `least` must be positive.
  static Axis powers_of_two(double least, double most, std::size_t ticks);

  /// The position of a value: 0 at the start of the axis, 1 at its end.
  double at(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double scaled(double value) const;

  bool logarithmic_ = false;
  double begin_ = 0, end_ = 1;
  std::vector<Tick> ticks_;
};

/// Formats `value` with `digits` decimals: from 10,000 on in thousands (k), from 1,000,000 on in millions (M).
std::string short_number(double value, int digits);

}  // namespace tutti::plot
