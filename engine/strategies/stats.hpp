// ExchangeStats: statistics of a rank's exchanges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::engine {

struct ExchangeStats {
  std::size_t exchanges = 0;    ///< exchanges started
  std::size_t finished = 0;     ///< completed, alike on all ranks; with gossip: steps with a push of any rank
  std::uint64_t bytes = 0;      ///< bytes passed to collectives and messages, not those on the wire
  double wait_seconds = 0;      ///< time that the training thread has waited
  double exchange_seconds = 0;  ///< time from the first start to the end; 0 if not measured
};

}  // namespace tutti::engine
