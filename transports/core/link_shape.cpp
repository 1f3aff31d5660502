// Converts link shapes from and to numbers with units.
#include "transports/core/link_shape.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "tutti/status.hpp"

namespace tutti {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit rates[] = {{"tbit", 1e12}, {"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}};
constexpr Unit times[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
constexpr double longest = 3600e9;  // nanoseconds

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(Code::invalid,
              "'" + std::string(text) + "' is no link: " + why +
                  "; give a rate, a one-way latency, or both, as in 50mbit,20ms (kbit, mbit, gbit; us, ms)");
}

const Unit* find(std::span<const Unit> units, std::string_view name) {
  const auto found = std::ranges::find(units, name, &Unit::name);
  return found == units.end() ? nullptr : &*found;
}

void read_part(LinkShape& shape, std::string_view part, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  const std::string unit(end, part.data() + part.size());
  if (error != std::errc() || !std::isfinite(number) || number < 0)
    refuse(text, "'" + std::string(part) + "' does not begin with a number");
  if (const Unit* const rate = find(rates, unit)) {
    if (shape.bits_per_second != 0) refuse(text, "it has two rates");
    if (number <= 0) refuse(text, "the rate is 0");
    shape.bits_per_second = number * rate->factor;
  } else if (const Unit* const time = find(times, unit)) {
    if (shape.latency.count() != 0) refuse(text, "it has two latencies");
    if (number * time->factor > longest) refuse(text, "the latency is longer than an hour");
    shape.latency = std::chrono::nanoseconds(std::llround(number * time->factor));
  } else {
    refuse(text, unit.empty() ? "'" + std::string(part) + "' has no unit" : "'" + unit + "' is not a unit");
  }
}

// The shortest text that is read as the same number, in the largest unit in which the number is at least 1.
std::string with_unit(double value, std::span<const Unit> units) {
  const auto found = std::ranges::find_if(units, [&](const Unit& unit) { return value >= unit.factor; });
  const Unit& unit = found == units.end() ? units.back() : *found;
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value / unit.factor);
  return std::string(text, end).append(unit.name);
}

}  // namespace

LinkShape parse_link_shape(std::string_view text) {
  LinkShape shape;
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    read_part(shape, rest.substr(0, comma), text);
    if (comma == rest.size()) return shape;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const LinkShape& shape) {
  const auto latency = static_cast<double>(shape.latency.count());
  std::string text = shape.bits_per_second > 0 ? with_unit(shape.bits_per_second, rates) : "";
  if (shape.latency.count() > 0 || text.empty()) text += (text.empty() ? "" : ",") + with_unit(latency, times);
  return text;
}

}  // namespace tutti
