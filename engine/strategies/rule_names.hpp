// Names of the rules that masters have, as workers ask for them.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::engine {

/// What a worker begins with.
inline std::string first_rule_name() { return "first"; }
/// Of the parameters of element type `index`: an exchange, and a worker's own after its last one.
inline std::string step_rule_name(std::size_t index) { return "step/" + std::to_string(index); }
inline std::string own_rule_name(std::size_t index) { return "own/" + std::to_string(index); }
/// Questions to the ledger.
inline std::string deal_rule_name() { return "deal"; }

}  // namespace tutti::engine
