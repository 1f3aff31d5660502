// Racks: see racks.hpp.
#include "collectives/bootstrap/racks.hpp"

#include <algorithm>
#include <map>

#include "tutti/status.hpp"

namespace tutti {
namespace {

constexpr std::size_t longest_rack = 200;

bool is_in_rack_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/// The parts between separators, including empty parts; an empty text has no parts.
std::vector<std::string_view> pieces_between(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_rack(std::string_view text) {
  const auto names = pieces_between(text, '/');
  return text.size() <= longest_rack && names.size() <= most_rack_levels &&
         std::ranges::all_of(
             names, [](std::string_view name) { return !name.empty() && std::ranges::all_of(name, is_in_rack_name); });
}

}  // namespace

std::vector<std::string_view> rack_path(std::string_view rack) {
  if (!is_rack(rack))
    throw Error(Code::invalid,
                "'" + std::string(rack.substr(0, longest_rack)) +
                    "' names no rack; write its name, of letters, digits, '.', '_' and '-', with what it "
                    "is in before it if there is more: rack7, or pod1/rack7");
  return pieces_between(rack, '/');
}

std::vector<std::vector<int>> group_by_rack(const std::vector<std::string_view>& places) {
  std::size_t levels = places.empty() ? 0 : most_rack_levels;
  for (const std::string_view place : places)
    levels = std::min(levels, is_rack(place) ? pieces_between(place, '/').size() : 0);
  std::vector<std::vector<int>> groups(levels);
  for (std::size_t level = 0; level < levels; ++level) {
    std::map<std::string_view, int> numbers;
    for (std::string_view place : places) {
      for (std::size_t i = 0; i < level; ++i) place = place.substr(0, place.rfind('/'));
      groups[level].push_back(numbers.try_emplace(place, static_cast<int>(numbers.size())).first->second);
    }
  }
  return groups;
}

namespace launchers {

std::string own_rack(const Settings& settings, const Environment& environment) {
  if (!settings.rack.empty()) {
    rack_path(settings.rack);
    return settings.rack;
  }
  // for example "s0.s2.node5" with the pattern "switch.switch.node"
  const std::string address = environment("SLURM_TOPOLOGY_ADDR").value_or("");
  const std::string pattern = environment("SLURM_TOPOLOGY_ADDR_PATTERN").value_or("");
  const auto names = pieces_between(address, '.'), kinds = pieces_between(pattern, '.');
  std::string rack;
  // A name that contains a dot gives more names than kinds. Then it is unclear which are switches: no rack.
  for (std::size_t i = 0; i < names.size() && names.size() == kinds.size(); ++i)
    if (kinds[i] != "node") rack += (rack.empty() ? "" : "/") + std::string(names[i]);
  return is_rack(rack) ? rack : std::string();
}

}  // namespace launchers
}  // namespace tutti
