// Ticks on logarithmic scales.
#include "tools/bench/axes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/plot/axis.hpp"

namespace tutti::bench {
namespace {

std::string size_label(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (bytes < 1024) return fmt::format("{} {}", bytes, unit);
    bytes /= 1024;
  }
  return fmt::format("{} GiB", bytes);
}

}  // namespace

Axis::Axis(double low, double high) : low_(low), high_(high > low ? high : low + 1) {}

double Axis::at(double value) const { return (std::log(value) - low_) / (high_ - low_); }

Axis Axis::of_sizes(const std::vector<std::size_t>& sizes, std::size_t most) {
  const auto [least, greatest] = std::minmax_element(sizes.begin(), sizes.end());
  const auto low = static_cast<double>(*least), high = static_cast<double>(*greatest);
  const bool single = low == high;
  Axis axis(std::log(single ? low / 2 : low), std::log(single ? high * 2 : high));
  const plot::Axis powers = plot::Axis::powers_of_two(low, high, most);
  for (const plot::Tick& tick : powers.ticks()) axis.ticks_.push_back({axis.at(tick.value), size_label(tick.value)});
  return axis;
}

Axis Axis::of_bandwidths(const std::vector<double>& values) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  std::vector<double> round;  // round numbers, from the last one below all values to the first one above them
  for (double decade = std::pow(10, std::floor(std::log10(*least))); round.empty() || round.back() < *greatest;
       decade *= 10)
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (!round.empty() && round.back() >= *greatest) break;
      if (round.size() == 1 && decade * digit <= *least) round.clear();
      round.push_back(decade * digit);
    }
  Axis axis(std::log(round.front()), std::log(round.back()));
  const bool decades_only = round.size() > 10;
  for (const double tick : round) {
    const double exponent = std::log10(tick);
    const bool labelled = !decades_only || std::abs(exponent - std::round(exponent)) < 1e-6;
    axis.ticks_.push_back({axis.at(tick), labelled ? fmt::format("{:.3g}", tick) : ""});
  }
  return axis;
}

Axes axes_of(const Plot& plot) {
  std::vector<double> values;
  for (const Curve& curve : plot.curves)
    for (const Point& point : curve.points) values.push_back(point.gb_s);
  if (values.empty()) values.push_back(1);  // with one rank nothing is transferred, so there are no bandwidths
  return {Axis::of_sizes(plot.sizes, 9), Axis::of_bandwidths(values)};
}

}  // namespace tutti::bench
