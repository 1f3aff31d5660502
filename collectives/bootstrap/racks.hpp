// Racks: where a host is among others, as it was told.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bootstrap/membership.hpp"

namespace tutti {

/// The names in "pod1/rack7", outermost first; none of an empty text. Throws Error{invalid} where the text is something
/// else: names are letters, digits, '.', '_' and '-', as many as `most_levels`, of 200 characters together.
std::vector<std::string_view> rack_path(std::string_view rack);
inline constexpr std::size_t most_rack_levels = 8;

/// The racks by which hosts that are at these places are grouped, rank by rank: [0] tells the racks apart, [1] what
/// they are in, and so on, as many levels as every place has names of; none where one has none. Groups are numbered in
/// the order of their first places. Texts that rack_path() refuses count as none.
std::vector<std::vector<int>> group_by_rack(const std::vector<std::string_view>& places);

namespace launchers {
/// Where this host is: Settings::rack, else SLURM's switches above it (SLURM_TOPOLOGY_ADDR and its pattern). Throws
/// Error{invalid} if the setting names no rack.
std::string own_rack(const Settings& settings, const Environment& environment = process_environment());
}  // namespace launchers

}  // namespace tutti
