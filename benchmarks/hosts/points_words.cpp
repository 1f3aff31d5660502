// Parses the program's arguments, and decides which algorithms it leaves out.
#include "benchmarks/hosts/points.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

constexpr double far_behind = 4;  // times the best one

template <class T>
T number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw Error(Code::invalid, "not a number: " + text);
  return value;
}

std::vector<std::int64_t> sizes_in(const std::string& text) {
  std::vector<std::int64_t> sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) sizes.push_back(number_in<std::int64_t>(part));
  if (sizes.empty() || sizes.front() < 1 || !std::ranges::is_sorted(sizes))
    throw Error(Code::invalid, "sizes= wants ascending numbers of bytes, not '" + text + "'");
  return sizes;
}

}  // namespace

Points parse_points(std::span<const std::string> words) {
  Points points;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "board") {
      points.board = value;
    } else if (key == "kind") {
      const auto kind = parse_collective(value);
      if (!kind || *kind == Kind::send || *kind == Kind::barrier)
        throw Error(Code::invalid, "kind= wants a collective that has data, not '" + value + "'");
      points.kind = *kind;
    } else if (key == "sizes") {
      points.sizes = sizes_in(value);
    } else if (key == "others") {
      points.others = value;
    } else if (key == "seconds") {
      points.seconds = number_in<double>(value);
    } else if (key == "seed") {
      points.seed = number_in<unsigned>(value);
    } else {
      throw Error(Code::invalid, "there is no '" + word + "'");
    }
  }
  if (points.board.empty() || points.sizes.empty())
    throw Error(Code::invalid, "this program is run by benchmarks/hosts/run");
  return points;
}

bool hopeless(const Past& past, std::int64_t bytes, double seconds) noexcept {
  if (past.seconds <= far_behind * past.best) return false;
  return past.seconds * static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(past.bytes, 1)) >
         seconds;
}

}  // namespace tutti::bench
