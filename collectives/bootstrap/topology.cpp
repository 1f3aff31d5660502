// Topology: see topology.hpp.
#include "tutti/topology.hpp"

#include <map>
#include <numeric>
#include <string_view>

namespace tutti {
namespace {

// Numbers the distinct hosts.
std::vector<int> numbered(const std::vector<Place>& places, const std::vector<std::size_t>& members) {
  std::map<std::string_view, int> numbers;
  std::vector<int> host;
  for (const std::size_t member : members)
    host.push_back(numbers.try_emplace(places[member].host, static_cast<int>(numbers.size())).first->second);
  return host;
}

std::vector<std::size_t> all_of(const std::vector<Place>& places) {
  std::vector<std::size_t> members(places.size());
  std::iota(members.begin(), members.end(), std::size_t{0});
  return members;
}

}  // namespace

Topology::Topology(std::shared_ptr<const std::vector<Place>> places, std::vector<std::size_t> members)
    : places_(std::move(places)),
      members_(std::move(members)),
      hosts_(std::make_shared<const Hosts>(numbered(*places_, members_), static_cast<int>(members_.size()))) {}

Topology::Topology(std::vector<Place> places)
    : Topology(std::make_shared<const std::vector<Place>>(places), all_of(places)) {}

Topology Topology::of(std::span<const int> members) const {
  std::vector<std::size_t> chosen;
  for (const int member : members) chosen.push_back(members_.at(static_cast<std::size_t>(member)));
  return {places_, std::move(chosen)};
}

}  // namespace tutti
