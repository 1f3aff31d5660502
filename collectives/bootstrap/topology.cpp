// Topology: see topology.hpp.
#include "tutti/topology.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>
#include <tuple>

namespace tutti {
namespace {

/// Numbers the different hosts in the order of their lowest ranks. `place_of(rank)` is an index in `places`.
template <class PlaceOf>
std::vector<int> numbered(const std::vector<Place>& places, int size, PlaceOf place_of) {
  std::map<std::string_view, int> numbers;
  std::vector<int> by_place(places.size(), -1), host;
  host.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    int& number = by_place[place_of(rank)];
    if (number < 0)
      number = numbers.try_emplace(places[place_of(rank)].host, static_cast<int>(numbers.size())).first->second;
    host.push_back(number);
  }
  return host;
}

}  // namespace

Topology::Places Topology::distinct(std::vector<Place> places) {
  using Key = std::tuple<std::string, std::string, int, std::string>;
  std::map<Key, std::uint32_t> numbers;
  Places result;
  for (Place& place : places) {
    const auto [at, fresh] = numbers.try_emplace(Key{place.host, place.host_name, place.numa_node, place.gpu_domain},
                                                 static_cast<std::uint32_t>(numbers.size()));
    if (fresh) result.different.push_back(std::move(place));
    result.of.push_back(at->second);
  }
  return result;
}

Topology::Topology(Places places) : Topology(std::make_shared<const Places>(std::move(places)), nullptr) {}

Topology::Topology(std::shared_ptr<const Places> places, std::shared_ptr<const std::vector<int>> members)
    : places_(std::move(places)), members_(std::move(members)) {
  const auto size = static_cast<int>(members_ ? members_->size() : places_->of.size());
  const auto place_of = [this](int rank) { return places_->of[static_cast<std::size_t>(job_rank(rank))]; };
  hosts_ = std::make_shared<const Hosts>(numbered(places_->different, size, place_of), size);
}

Topology Topology::of(std::span<const int> members) const {
  const auto is_in_place = [&](int rank) { return members[static_cast<std::size_t>(rank)] == rank; };
  if (static_cast<int>(members.size()) == size() && std::ranges::all_of(std::views::iota(0, size()), is_in_place))
    return *this;
  std::vector<int> chosen;
  chosen.reserve(members.size());
  for (const int member : members) {
    static_cast<void>((*this)[member]);  // throws for a rank that is not there
    chosen.push_back(job_rank(member));
  }
  return {places_, std::make_shared<const std::vector<int>>(std::move(chosen))};
}

}  // namespace tutti
