#include "tools/plot/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::plot {
namespace {

constexpr double roundness[] = {1, 2, 5};

/// Returns the number of decimals that distinguish multiples of `step`.
int digits_of(double step) { return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9); }

double step_of(double range, int parts) {
  const double rough = range / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double each : roundness)
    if (each * power >= rough * (1 - 1e-9)) return each * power;
  return 10 * power;
}

}  // namespace

std::string short_number(double value, int digits) {
  if (std::abs(value) >= 1e6) return fmt::format("{:g}M", std::round(value / 1e4) / 100);
  if (std::abs(value) >= 1e4) return fmt::format("{:g}k", std::round(value / 100) / 10);
  return fmt::format("{:.{}f}", value, digits);
}

Axis Axis::linear(double least, double most, int parts) {
  if (!(most > least)) {
    const double room = least == 0 ? 1 : 0.1 * std::abs(least);
    least -= least == 0 ? 0 : room;
    most += room;
  }
  const double step = step_of(most - least, parts);
  Axis axis;
  axis.begin_ = std::floor(least / step + 1e-9) * step;
  axis.end_ = std::ceil(most / step - 1e-9) * step;
  const auto count = static_cast<int>(std::lround((axis.end_ - axis.begin_) / step));
  for (int i = 0; i <= count; ++i) {
    const double value = axis.begin_ + i * step;
    axis.ticks_.push_back({value, short_number(value == 0 ? 0 : value, digits_of(step))});
  }
  return axis;
}

Axis Axis::logarithmic(double least, double most) {
  Axis axis;
  axis.logarithmic_ = true;
  const bool few = most / least < 50;
  const auto round = [&](double value, bool up) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    double found = power;
    for (const double each : roundness) {
      if (!few && each > 1) break;
      if (up && each * power >= value * (1 - 1e-9)) return each * power;
      if (!up && each * power <= value * (1 + 1e-9)) found = each * power;
    }
    return up ? 10 * power : found;
  };
  axis.begin_ = round(least, false);
  axis.end_ = std::max(round(most, true), 2 * axis.begin_);
  for (double power = std::pow(10, std::floor(std::log10(axis.begin_))); power <= axis.end_ * 1.001; power *= 10)
    for (const double each : roundness) {
      const double value = each * power;
      if ((each == 1 || few) && value >= axis.begin_ * 0.999 && value <= axis.end_ * 1.001)
        axis.ticks_.push_back({value, short_number(value, digits_of(power))});
    }
  return axis;
}

Axis Axis::powers_of_two(double least, double most, std::size_t ticks) {
  Axis axis;
  axis.logarithmic_ = true;
  axis.begin_ = least == most ? least / 2 : least;
  axis.end_ = least == most ? most * 2 : most;
  double step = 2;
  while (std::log2(most / least) / std::log2(step) + 1 > static_cast<double>(ticks)) step *= 2;
  for (double value = std::exp2(std::ceil(std::log2(least) - 1e-9)); value <= most * 1.0001; value *= step)
    axis.ticks_.push_back({value, short_number(value, 0)});
  if (axis.ticks_.empty()) axis.ticks_.push_back({least, short_number(least, 0)});
  return axis;
}

double Axis::scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }

double Axis::at(double value) const { return (scaled(value) - scaled(begin_)) / (scaled(end_) - scaled(begin_)); }

}  // namespace tutti::plot
