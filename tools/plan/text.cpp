#include "tools/plan/text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tutti::planning {

std::string time_text(double seconds) {
  if (seconds == 0) return "0 us";
  const char* unit = seconds < 0.9995e-3 ? "us" : seconds < 0.9995 ? "ms" : "s";
  const double value = seconds * (unit[0] == 'u' ? 1e6 : unit[0] == 'm' ? 1e3 : 1);
  return value >= 999.5 ? fmt::format("{:.0f} {}", value, unit) : fmt::format("{:.3g} {}", value, unit);
}

std::string bytes_text(std::size_t bytes) {
  auto value = static_cast<double>(bytes);
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  const double shown = value >= 100 ? std::round(value) : std::round(value * 100) / 100;
  return fmt::format("{:g} {}", shown, units[unit]);
}

std::string count_text(std::size_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string ratio_text(double ratio) {
  return ratio < 99.995 ? fmt::format("{:.2f}", ratio) : count_text(static_cast<std::size_t>(std::round(ratio)));
}

std::string plural(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count_text(count), one, count == 1 ? "" : "s");
}

std::string listed(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace tutti::planning
