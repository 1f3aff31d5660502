#include "engine/report/forecast.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <utility>

#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Unit = std::pair<std::string_view, double>;
constexpr Unit times[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit rates[] = {{"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}, {"gb", 1e9}, {"mb", 1e6}};

/// Parses a positive number followed by one of the units; returns 0 if the word has another form.
double with_unit(std::string_view word, std::span<const Unit> units) {
  double value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc()) return 0;
  std::string unit(rest, word.data() + word.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [name, factor] : units)
    if (name == unit) return value * factor;
  return 0;
}

}  // namespace

Link Link::parse(std::string_view text) {
  const std::size_t comma = std::min(text.find(','), text.size());
  std::string_view time = text.substr(0, comma), rate = comma == text.size() ? "" : text.substr(comma + 1);
  if (with_unit(rate, times) > 0) std::swap(time, rate);
  Link link{.latency = with_unit(time, times), .bytes_per_second = with_unit(rate, rates)};
  if (!(link.latency > 0) || !(link.bytes_per_second > 0))
    throw Error(Code::invalid,
                "--link " + std::string(text) +
                    ": expected latency and bandwidth, as in 20us,10gbit (s, ms, us; gbit, mbit, gb, mb)");
  return link;
}

std::string Link::text() const {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g us, %.3g GB/s", 1e6 * latency, 1e-9 * bytes_per_second);
  return text;
}

double ring_bytes(double bytes, int ranks) { return 2.0 * (ranks - 1) / ranks * bytes; }

double ring_seconds(double bytes, int ranks, const Link& link) {
  return 2.0 * (ranks - 1) * link.latency + ring_bytes(bytes, ranks) / link.bytes_per_second;
}

Forecast forecast(std::span<const std::size_t> buckets, int ranks, double backward, const Link& link) {
  const auto all = static_cast<double>(std::accumulate(buckets.begin(), buckets.end(), std::size_t{0}));
  Forecast found;
  double ready = 0, free = 0;  // seconds after backward starts: the bucket is full; the previous one is complete
  for (const std::size_t bytes : buckets) {
    const double seconds = ring_seconds(static_cast<double>(bytes), ranks, link);
    ready += backward * static_cast<double>(bytes) / all;
    free = std::max(ready, free) + seconds;
    found.communication += seconds;
  }
  found.exposed = std::max(0.0, free - backward);
  return found;
}

}  // namespace tutti::engine
