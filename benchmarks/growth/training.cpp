// Training: the bytes and messages that reports and the comparison of replicas cost a rank.
#include "benchmarks/growth/law.hpp"
#include "engine/report/clocks.hpp"
#include "engine/report/costs.hpp"
#include "nn/costs.hpp"

namespace tutti::growth {

std::vector<Law> training_laws() {
  using namespace engine;
  const std::vector<std::int64_t> sizes = {64, 1024, 8192, 65536};
  constexpr std::size_t exchanges = 1024, tensors = 1000;
  // The worst case: in each exchange a different rank is late.
  const auto late = [](std::int64_t n) { return wait_row_entries(exchanges, static_cast<std::size_t>(n)); };
  return {
      {"training", "bytes that a rank gives to sum up 1,024 exchanges", How::function, sizes,
       [late](std::int64_t n) { return static_cast<double>(epoch_times_bytes(exchanges, late(n))); }, 0.07, 20536},
      {"training", "bytes of rank 0 to name the worst pairs", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(worst_pairs_bytes(0, static_cast<int>(n))); }, 0.2, 2560},
      {"training", "numbers that a rank holds of 1,024 exchanges it waited in", How::function, sizes,
       [late](std::int64_t n) { return static_cast<double>(late(n)); }, 0.4, 1024},
      {"training", "messages of rank 0 to compare clocks", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(clock_messages(0, static_cast<int>(n))); }, 0.15, 256},
      {"training", "bytes that a rank gives to compare replicas of 1,000 tensors, on any number of ranks",
       How::function, sizes, [](std::int64_t) { return static_cast<double>(nn::replica_check_bytes(tensors)); }, 0,
       16016},
  };
}

}  // namespace tutti::growth
