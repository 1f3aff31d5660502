// Where scenarios are played: by threads of this process, or by processes of their own.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/scenario.hpp"

namespace tutti::testing {

/// Plays the scenario with ranks that are threads. Returns what went wrong. A hang ends the program, after a line about
/// it, because its threads cannot be ended.
std::vector<std::string> play_in_threads(const Scenario& scenario);

/// Plays the scenario with ranks that are processes, which run this program again. Returns what went wrong.
std::vector<std::string> play_in_processes(const Scenario& scenario);

/// The main() of such a process: `arguments` are those that play_in_processes() passes after "--rank".
int play_one_rank(const std::vector<std::string>& arguments);

}  // namespace tutti::testing
