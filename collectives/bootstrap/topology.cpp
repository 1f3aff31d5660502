// Topology: see topology.hpp.
#include "tutti/topology.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>
#include <string_view>
#include <tuple>

#include "collectives/bootstrap/racks.hpp"
#include "tutti/provider/packed.hpp"

namespace tutti {

// The strings are packed, because a job on many hosts has many different places and rarely reads them.
struct Topology::Places {
  void add(const Place& place) {
    hosts.push_back(place.host);
    names.push_back(place.host_name);
    gpu_domains.push_back(place.gpu_domain);
    numa_nodes.push_back(static_cast<std::uint32_t>(place.numa_node));
    if (name_racks) racks.push_back(place.rack);
  }
  void settle() {
    for (PackedTexts* const texts : {&hosts, &names, &gpu_domains, &racks}) texts->shrink_to_fit();
    for (RunList* const numbers : {&numa_nodes, &of}) numbers->shrink_to_fit();
  }

  PackedTexts hosts, names, gpu_domains;  // of each different place
  PackedTexts racks;                      // empty unless name_racks
  bool name_racks = false;
  RunList numa_nodes;
  RunList of;  // by rank of the job: the index of its place
};

namespace {

/// Numbers the different hosts in the order of their lowest ranks. `place_of(rank)` is an index in `hosts`.
template <class PlaceOf>
std::vector<int> numbered(const PackedTexts& hosts, int size, PlaceOf place_of) {
  std::map<std::string_view, int> numbers;
  std::vector<int> by_place(hosts.size(), -1), host;
  host.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const std::size_t place = place_of(rank);
    int& number = by_place[place];
    if (number < 0) number = numbers.try_emplace(hosts[place], static_cast<int>(numbers.size())).first->second;
    host.push_back(number);
  }
  return host;
}

}  // namespace

Topology::Topology(const std::vector<Place>& places) {
  std::vector<std::uint32_t> of(places.size());
  std::iota(of.begin(), of.end(), 0u);
  *this = Topology(places, of);
}

Topology::Topology(const std::vector<Place>& different, std::span<const std::uint32_t> of) {
  using Key = std::tuple<std::string_view, std::string_view, int, std::string_view, std::string_view>;
  std::map<Key, std::uint32_t> numbers;
  Places places;
  places.name_racks = std::ranges::any_of(different, [](const Place& place) { return !place.rack.empty(); });
  std::vector<std::uint32_t> number_of;  // the given places may have duplicates
  for (const Place& place : different) {
    const Key key{place.host, place.host_name, place.numa_node, place.gpu_domain, place.rack};
    const auto [at, fresh] = numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size()));
    if (fresh) places.add(place);
    number_of.push_back(at->second);
  }
  for (const std::uint32_t place : of) places.of.push_back(number_of.at(place));
  places.settle();
  *this = Topology(std::make_shared<const Places>(std::move(places)), nullptr);
}

Topology::Topology(std::shared_ptr<const Places> places, std::shared_ptr<const std::vector<int>> members)
    : places_(std::move(places)), members_(std::move(members)) {
  const auto size = static_cast<int>(members_ ? members_->size() : places_->of.size());
  RunList::Reader place_of(places_->of);
  const auto host =
      numbered(places_->hosts, size, [&](int rank) { return place_of[static_cast<std::size_t>(job_rank(rank))]; });
  std::vector<std::string_view> racks;
  for (int rank = 0; rank < size && places_->name_racks; ++rank)
    racks.push_back(places_->racks[place_of[static_cast<std::size_t>(job_rank(rank))]]);
  hosts_ = std::make_shared<const Hosts>(host, size, group_by_rack(racks));
}

Place Topology::operator[](int rank) const {
  const std::size_t place = places_->of.at(static_cast<std::size_t>(job_rank(rank)));
  return {std::string(places_->hosts[place]), std::string(places_->names[place]),
          static_cast<int>(places_->numa_nodes[place]), std::string(places_->gpu_domains[place]),
          places_->name_racks ? std::string(places_->racks[place]) : std::string()};
}

Topology Topology::of(std::span<const int> members) const {
  const auto is_in_place = [&](int rank) { return members[static_cast<std::size_t>(rank)] == rank; };
  if (static_cast<int>(members.size()) == size() && std::ranges::all_of(std::views::iota(0, size()), is_in_place))
    return *this;
  std::vector<int> chosen;
  chosen.reserve(members.size());
  for (const int member : members) {
    const int rank = job_rank(member);
    static_cast<void>(places_->of.at(static_cast<std::size_t>(rank)));  // throws for a rank that is not there
    chosen.push_back(rank);
  }
  return {places_, std::make_shared<const std::vector<int>>(std::move(chosen))};
}

}  // namespace tutti
