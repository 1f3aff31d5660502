#include "benchmarks/growth/law.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tutti::growth {
namespace {

constexpr std::int64_t columns[] = {64, 1024, 8192, 65536};

std::string number(double value) {
  char text[32];
  if (value != 0 && (value < 0.01 || value >= 1e9))
    std::snprintf(text, sizeof text, "%.3g", value);
  else if (value < 100)
    std::snprintf(text, sizeof text, "%.4g", value);
  else
    std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

}  // namespace

std::string text_of(How how) {
  switch (how) {
    case How::function: return "function";
    case How::simulated: return "simulated peers";
    case How::threads: return "threads";
    case How::processes: return "processes";
  }
  return "?";
}

Measured measure(const Law& law) {
  Measured row{&law, {}, 0};
  for (const std::int64_t size : law.sizes) row.values.push_back(law.at(size));
  if (row.values.size() < 2) return row;
  constexpr double nothing = 1e-9;
  const double first = std::max(row.values.front(), nothing), last = std::max(row.values.back(), nothing);
  row.exponent =
      std::log(last / first) / std::log(static_cast<double>(law.sizes.back()) / static_cast<double>(law.sizes.front()));
  return row;
}

bool Measured::holds() const {
  constexpr double rounding = 0.005;
  const bool counted = std::ranges::all_of(values, [](double value) { return std::isfinite(value) && value >= 0; });
  return !law->judged || (counted && exponent <= law->most_exponent + rounding && values.back() <= law->bound);
}

std::string table_of(const std::vector<Measured>& rows) {
  std::string text =
      "| part | quantity | how | 64 | 1,024 | 8,192 | 65,536 | exponent | at most | bound at the last | |\n"
      "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n";
  for (const Measured& row : rows) {
    const Law& law = *row.law;
    text += "| " + law.part + " | " + law.quantity + " | " + text_of(law.how) + " |";
    std::string others;
    for (std::size_t i = 0; i < law.sizes.size(); ++i)
      if (std::ranges::find(columns, law.sizes[i]) == std::end(columns))
        others += (others.empty() ? "at " : "; at ") + std::to_string(law.sizes[i]) + ": " + number(row.values[i]);
    for (const std::int64_t size : columns) {
      const auto found = std::ranges::find(law.sizes, size);
      text += " " +
              (found == law.sizes.end() ? std::string()
                                        : number(row.values[static_cast<std::size_t>(found - law.sizes.begin())])) +
              " |";
    }
    char exponent[32];
    std::snprintf(exponent, sizeof exponent, "%.2f", row.exponent);
    text += " " + std::string(exponent) + " | ";
    if (law.judged) {
      std::snprintf(exponent, sizeof exponent, "%.2f", law.most_exponent);
      text += std::string(exponent) + " | " + number(law.bound) + " | " + (row.holds() ? "" : "BROKEN");
    } else {
      text += "| | shown only";
    }
    text += (others.empty() ? "" : " " + others) + " |\n";
  }
  return text;
}

}  // namespace tutti::growth
