// TCP between this host and another one, in both directions.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/check.hpp"
#include "tools/doctor/door.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// How long a connection to one address may take.
inline constexpr Seconds patience_of_knock(3);

/// Starts the answering side on `host` by the setting remote_start, and tests both directions. This host itself needs
/// no remote start. Throws Error{invalid} if `host` is no name of a host.
std::vector<Check> checks_with(const std::string& host, const Settings& settings);

/// What the results of one direction mean. `to` is the host that has to accept the connections, `range` its ports.
Check judge_direction(const std::string& from, const std::string& to, const std::vector<Knock>& knocks,
                      const std::string& range);

/// What the time of another host means, which is `ahead` seconds ahead, give or take `doubt`.
Check judge_time(const std::string& host, double ahead, double doubt);

}  // namespace tutti::tools
