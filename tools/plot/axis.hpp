// Axis: the range of one direction of a plot, with ticks at round numbers.
#pragma once

#include <string>
#include <vector>

namespace tutti::plot {

struct Tick {
  double value = 0;
  std::string label;
};

class Axis {
 public:
  /// From a round number at or below `least` to one at or above `most`, in about `parts` parts of 1, 2 or 5 times a
  /// power of 10. One value alone gets some room around it.
  static Axis linear(double least, double most, int parts = 5);

  /// Between powers of 10, or 1, 2 and 5 times these where that is little. `least` is above 0.
  static Axis logarithmic(double least, double most);

  /// Where a value is: 0 at the axis' beginning, 1 at its end.
  double at(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double scaled(double value) const;

  bool logarithmic_ = false;
  double begin_ = 0, end_ = 1;
  std::vector<Tick> ticks_;
};

/// With so many digits behind the point; from 10,000 on in thousands (k) or millions (M).
std::string short_number(double value, int digits);

}  // namespace tutti::plot
