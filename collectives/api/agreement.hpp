// What all ranks adopt from rank 0 before they connect: settings, and the sources of selection rules.
#pragma once

#include <string>
#include <vector>

#include "tutti/bootstrap.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// The sources of selection rules besides the settings: the backends installed on rank 0, and its measured rules.
struct RuleSources {
  std::vector<std::string> backends;
  std::string tuned;
};

/// Sets those settings that must be equal on all ranks to rank 0's values. Returns rank 0's sources of rules.
/// Collective; blocks. Throws Error: invalid, on all ranks, if rank 0 cannot use its own rules; timeout; peer_lost.
RuleSources agree_with_first(const Bootstrap& bootstrap, Settings& settings);

/// Splits a list at its commas; empty words are left out.
std::vector<std::string> words_of(const std::string& list);

/// True if a provider of this name is built in.
bool is_built_in(std::string_view name);

}  // namespace tutti
