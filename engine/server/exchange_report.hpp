// ExchangeReport: statistics of exchanges with masters.
#pragma once

#include <cstdint>
#include <map>

namespace tutti::engine {

/// The exchanges of a worker, or of a sub-master with the top master.
struct ExchangeReport {
  std::uint64_t exchanges = 0, sent = 0, got = 0;    ///< number; bytes of values sent and received
  std::map<std::uint64_t, std::uint64_t> staleness;  ///< histogram of the others' updates between two exchanges
};

}  // namespace tutti::engine
