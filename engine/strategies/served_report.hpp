// ServedReport: what was exchanged with masters.
#pragma once

#include <cstdint>
#include <map>

namespace tutti::engine {

/// What a worker, or a sub-master as the top's worker, has found out about its exchanges.
struct ServedReport {
  std::uint64_t exchanges = 0, sent = 0, got = 0;    ///< bytes of values
  std::map<std::uint64_t, std::uint64_t> staleness;  ///< how often the masters' updates between were so many
};

}  // namespace tutti::engine
