// Racks: the position of a host in the hierarchy of racks, as the user or SLURM gives it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bootstrap/membership.hpp"

namespace tutti {

/// Splits "pod1/rack7" into its names, outermost first; an empty text has none. Throws Error{invalid} unless names
/// consist of letters, digits, '.', '_' and '-', with at most `most_rack_levels` names and 200 characters in all.
std::vector<std::string_view> rack_path(std::string_view rack);
inline constexpr std::size_t most_rack_levels = 8;

/// Groups ranks by their racks: `places[i]` is the rack of rank i, such as "pod1/rack7". In the result, [0][i] is the
/// number of rank i's rack, [1][i] the number of the enclosing unit (pod1), and so on. There are as many levels as the
/// place with the fewest names has. Groups are numbered in the order of their first ranks. A text that rack_path()
/// refuses has no names.
std::vector<std::vector<int>> group_by_rack(const std::vector<std::string_view>& places);

namespace launchers {
/// This host's rack: Settings::rack, or else SLURM's switches above the host (SLURM_TOPOLOGY_ADDR and its pattern);
/// empty if unknown. Throws Error{invalid} if the setting is not a valid rack.
std::string own_rack(const Settings& settings, const Environment& environment = process_environment());
}  // namespace launchers

}  // namespace tutti
