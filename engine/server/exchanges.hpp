// Names of buffers and rules, and counts of exchanges, for masters (which keep parameters), sub-masters and workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tutti::engine {

/// Name of the buffer with all parameters of element type number `index`.
inline std::string centre_name(std::size_t index) { return "centre/" + std::to_string(index); }

/// Name of the rule that sets the initial parameters.
inline std::string first_rule_name() { return "first"; }
/// Names of the rules for element type number `index`. step: one exchange of a worker. own: a read of the worker's own
/// parameters after its last exchange.
inline std::string step_rule_name(std::size_t index) { return "step/" + std::to_string(index); }
inline std::string own_rule_name(std::size_t index) { return "own/" + std::to_string(index); }
/// Name of the rule that answers questions to the ledger.
inline std::string deal_rule_name() { return "deal"; }

/// The exchanges of a worker, or of a sub-master with the top master.
struct ExchangeReport {
  std::uint64_t exchanges = 0, sent = 0, got = 0;    ///< number of exchanges; bytes of values sent, and received
  std::map<std::uint64_t, std::uint64_t> staleness;  ///< histogram of the others' updates between two exchanges
};

}  // namespace tutti::engine
