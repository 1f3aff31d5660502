// Parsing of SLURM's lists: "n[1-3,07],login" for hosts, "4(x2),3" for tasks per node.
#include <algorithm>
#include <charconv>
#include <cstdint>

#include "collectives/bootstrap/membership.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

constexpr std::size_t most_hosts = 100000;
constexpr std::size_t longest_host = 255;  // as DNS has it
constexpr int most_brackets = 8;           // in one entry

[[noreturn]] void malformed(const std::string& list) {
  throw Error(Code::invalid,
              "SLURM's list of nodes '" + list + "' is malformed; set TUTTI_STORE=tcp://HOST:PORT instead");
}

/// Splits at commas outside brackets.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) malformed(list);
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) malformed(list);
  return parts;
}

/// Expands "07-11" to 07 08 09 10 11, padded to the width of the first number.
std::vector<std::string> range(const std::string& text, const std::string& list) {
  const std::size_t dash = text.find('-');
  const std::string low = text.substr(0, dash), high = dash == std::string::npos ? low : text.substr(dash + 1);
  std::size_t first = 0, last = 0;
  const auto number = [&](const std::string& digits, std::size_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) malformed(list);
  };
  number(low, first);
  number(high, last);
  if (last < first || last - first > most_hosts || last == SIZE_MAX || low.size() > longest_host) malformed(list);
  std::vector<std::string> numbers;
  for (std::size_t i = first; i <= last; ++i) {
    const std::string digits = std::to_string(i);
    numbers.push_back(std::string(low.size() > digits.size() ? low.size() - digits.size() : 0, '0') + digits);
  }
  return numbers;
}

/// Expands one entry: text, optionally followed by brackets and more of the same.
std::vector<std::string> expand(const std::string& entry, const std::string& list) {
  const std::size_t open = entry.find('[');
  if (open == std::string::npos) return {entry};
  if (std::ranges::count(entry, '[') > most_brackets) malformed(list);
  const std::size_t closed = entry.find(']', open);
  const std::vector<std::string> tails = expand(entry.substr(closed + 1), list);
  std::vector<std::string> hosts;
  for (const std::string& piece : parts_of(entry.substr(open + 1, closed - open - 1)))
    for (const std::string& number : range(piece, list))
      for (const std::string& tail : tails) {
        if (hosts.size() > most_hosts || open + number.size() + tail.size() > longest_host) malformed(list);
        hosts.push_back(entry.substr(0, open) + number + tail);
      }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_hosts(const std::string& list) {
  std::vector<std::string> hosts;
  for (const std::string& part : parts_of(list)) {
    if (part.empty()) malformed(list);
    for (std::string& host : expand(part, list)) hosts.push_back(std::move(host));
    if (hosts.size() > most_hosts) malformed(list);
  }
  return hosts;
}

int tasks_on_node(const std::string& list, int node) {
  for (const std::string& part : parts_of(list)) {
    int tasks = 0, times = 1;
    const char* const end = part.data() + part.size();
    const auto [after, error] = std::from_chars(part.data(), end, tasks);
    if (error != std::errc()) return 0;
    constexpr std::string_view open = "(x";
    if (std::string_view(after, static_cast<std::size_t>(end - after)).starts_with(open))
      std::from_chars(after + open.size(), end, times);
    if (times < 1) return 0;
    if (node < times) return tasks;
    node -= times;
  }
  return 0;
}

}  // namespace tutti::launchers
