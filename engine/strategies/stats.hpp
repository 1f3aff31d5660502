// What exchanging took.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::engine {

struct ExchangeStats {
  std::size_t exchanges = 0;    ///< started, in all
  std::size_t finished = 0;     ///< of these
  std::uint64_t bytes = 0;      ///< what a rank gave: the elements, not what a wire carries of them
  double wait_seconds = 0;      ///< that the training thread has waited for them
  double exchange_seconds = 0;  ///< from the first start to the end; 0 where nobody measures it
};

}  // namespace tutti::engine
