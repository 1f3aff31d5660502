// What masters, sub-masters and workers know of their exchanges: the names of buffers and rules, and what is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tutti::engine {

/// The buffer with all parameters of element type `index`.
inline std::string centre_name(std::size_t index) { return "centre/" + std::to_string(index); }

/// The rule that sets the initial parameters.
inline std::string first_rule_name() { return "first"; }
/// The rules for element type `index`: one exchange of a worker, and a read of the worker's own copy after its last
/// exchange.
inline std::string step_rule_name(std::size_t index) { return "step/" + std::to_string(index); }
inline std::string own_rule_name(std::size_t index) { return "own/" + std::to_string(index); }
/// The rule that answers questions to the ledger.
inline std::string deal_rule_name() { return "deal"; }

/// The exchanges of a worker, or of a sub-master with the top master.
struct ExchangeReport {
  std::uint64_t exchanges = 0, sent = 0, got = 0;    ///< number; bytes of values sent and received
  std::map<std::uint64_t, std::uint64_t> staleness;  ///< histogram of the others' updates between two exchanges
};

}  // namespace tutti::engine
