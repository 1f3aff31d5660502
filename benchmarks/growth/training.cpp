// Training: what reports and orders cost a rank.
#include "benchmarks/growth/law.hpp"
#include "engine/data/permutation.hpp"
#include "engine/report/costs.hpp"

namespace tutti::growth {

std::vector<Law> training_laws() {
  using namespace engine;
  const std::vector<std::int64_t> sizes = {64, 1024, 8192, 65536};
  constexpr std::size_t exchanges = 1024, late = 10;
  return {
      {"training", "bytes that a rank gives to sum up 1,024 exchanges", How::function, sizes,
       [](std::int64_t) { return static_cast<double>(epoch_times_bytes(exchanges, late)); }, 0, 12424},
      {"training", "bytes of rank 0 to name the worst pairs", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(worst_pairs_bytes(0, static_cast<int>(n))); }, 0.2, 2560},
      {"training", "numbers that a rank holds of 1,024 exchanges it waited in", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(wait_row_entries(exchanges, static_cast<std::size_t>(n))); },
       0.41, 1024},
      {"training", "rounds in which clocks are compared", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(Tree{static_cast<int>(n)}.rounds()); }, 0.15, 16},
      {"training", "bytes of an epoch's order, by samples (times 10^4)", How::function, sizes,
       [](std::int64_t) { return static_cast<double>(sizeof(Permutation)); }, 0, 128},
  };
}

}  // namespace tutti::growth
