// ExchangeStats: statistics of a rank's exchanges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::engine {

struct ExchangeStats {
  std::size_t exchanges = 0;    ///< exchanges started
  std::size_t finished = 0;     ///< exchanges completed, equal on all ranks; gossip: steps with a push
  std::uint64_t bytes = 0;      ///< bytes passed to collectives and messages, not those on the wire
  double wait_seconds = 0;      ///< time that the training thread has waited
  double exchange_seconds = 0;  ///< sum over steps: first bucket's start to the last one's end; 0: not measured
};

}  // namespace tutti::engine
