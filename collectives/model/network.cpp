// Network: see network.hpp.
#include "collectives/model/network.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::model {
namespace {

constexpr double us = 1e-6, giga = 1e9;

constexpr Link link(double latency_us, double gigabytes, double overhead_us) {
  return {latency_us * us, 1 / (gigabytes * giga), overhead_us * us};
}

constexpr NamedNetwork table[] = {
    {"tcp", "hosts joined by TCP at 10 Gbit/s, shared memory within", {{link(0.4, 8, 0.2), link(25, 1.15, 5)}, 5e-11}},
    {"gigabit",
     "hosts joined by TCP at 1 Gbit/s, shared memory within",
     {{link(0.4, 8, 0.2), link(40, 0.117, 5)}, 5e-11}},
    {"fabric",
     "hosts joined by RDMA at 100 Gbit/s, shared memory within",
     {{link(0.1, 10, 0.1), link(1, 12.5, 0.5)}, 5e-11}},
    {"loopback", "TCP within the host as well", {{link(10, 3, 4), link(25, 1.15, 5)}, 5e-11}},
};

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
  std::string names;
  for (const NamedNetwork& one : table) names += (names.empty() ? "" : ", ") + std::string(one.name);
  part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
  throw Error(Code::invalid, "cannot read '" + std::string(part) + "' of a network: " + why +
                                 "; write for example 'within 0.3us 10G, between 2us 12.5G 0.5us, fold 10G' "
                                 "(latency, bytes a second, overhead), or one of " +
                                 names);
}

std::vector<std::string_view> words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> found;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return found;
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit no_units[] = {{"", 1}};

/// Parses a number >= 0 that one of the units follows. Throws if `word` is anything else.
double number(std::string_view word, std::span<const Unit> units, const std::string& what) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string_view unit = word.substr(static_cast<std::size_t>(end - word.data()));
  const auto found = std::ranges::find(units, unit, &Unit::name);
  if (error != std::errc() || found == units.end() || !std::isfinite(value) || value < 0) refuse(word, what);
  return value * found->factor;
}

double seconds(std::string_view word) {
  static constexpr Unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  return number(word, units, "a time such as 2us is wanted");
}

double per_byte(std::string_view word) {
  static constexpr Unit units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  const double bandwidth = number(word, units, "bytes a second such as 12.5G are wanted");
  if (bandwidth < 1000) refuse(word, "bytes a second such as 12.5G are wanted, of which 100 Gbit/s are so many");
  return 1 / bandwidth;
}

std::string short_text(double value, std::span<const Unit> units) {
  const Unit* unit = &units.front();
  for (const Unit& one : units)
    if (value >= one.factor * 0.9999999) unit = &one;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value / unit->factor);
  return text + std::string(unit->name);
}

std::string bandwidth_text(double per_byte) {
  static constexpr Unit units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  return short_text(1 / per_byte, units);
}

}  // namespace

std::string_view name(Level level) noexcept {
  static constexpr std::string_view names[levels] = {"within", "between", "beyond"};
  return names[static_cast<int>(level)];
}

std::span<const NamedNetwork> named_networks() noexcept { return table; }

const Network& default_network() noexcept { return table[0].network; }

namespace {

std::optional<Level> parse_level(std::string_view word) {
  for (const Level level : {Level::within, Level::between, Level::beyond})
    if (word == name(level)) return level;
  return std::nullopt;
}

}  // namespace

Network parse_network(std::string_view text) {
  constexpr std::string_view sentence = "network:";  // the sentence in the setting `select` begins with this word
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.starts_with(sentence)) text.remove_prefix(sentence.size());
  Network network = default_network();
  const auto parts = words(text, ",");
  if (parts.empty()) refuse(text, "nothing is given");
  std::vector<std::string_view> seen;
  for (const std::string_view part : parts) {
    const auto given = words(part, " \t");
    if (given.empty()) refuse(part, "nothing is given");
    if (std::ranges::count(seen, given[0]) > 0) refuse(part, "it is given twice");
    seen.push_back(given[0]);
    if (const auto known = std::ranges::find(named_networks(), given[0], &NamedNetwork::name);
        known != named_networks().end() && given.size() == 1) {
      if (seen.size() > 1) refuse(part, "a name comes first, and what follows changes its levels");
      network = known->network;
    } else if (given[0] == "fold") {
      if (given.size() != 2) refuse(part, "the bytes a second of folding are wanted");
      network.fold_per_byte = per_byte(given[1]);
    } else if (given[0] == "cores") {
      if (given.size() != 2) refuse(part, "the cores of a host are wanted");
      network.cores = number(given[1], no_units, "a number of cores is wanted");
    } else if (const auto level = parse_level(given[0])) {
      if (given.size() != 3 && given.size() != 4) refuse(part, "a latency and bytes a second are wanted");
      Link& link = network[*level];
      link = {seconds(given[1]), per_byte(given[2]), 0};
      link.overhead = given.size() == 4 ? seconds(given[3]) : link.latency / 4;
    } else {
      refuse(part, "this is no name, and begins with none of within, between, beyond, fold, cores");
    }
  }
  return network;
}

std::string time_text(double value) {
  static constexpr Unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return short_text(value, units);
}

std::string to_string(const Network& network) {
  std::string text;
  for (const Level level : {Level::within, Level::between, Level::beyond}) {
    if (level == Level::beyond && !network.tells_racks()) continue;
    const Link& link = network[level];
    text += std::string(name(level)) + " " + time_text(link.latency) + " " + bandwidth_text(link.per_byte) + " " +
            time_text(link.overhead) + ", ";
  }
  text += "fold " + bandwidth_text(network.fold_per_byte);
  return network.cores > 0 ? text + ", cores " + short_text(network.cores, no_units) : text;
}

}  // namespace tutti::model
