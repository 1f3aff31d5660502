// The measuring loop, one for all implementations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/board.hpp"
#include "tools/bench/request.hpp"

namespace tutti::bench {

/// A library that can be measured.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// "" or why it cannot do this.
  virtual std::string refuses(const Case& what) const = 0;
  /// Starts the call and returns when this rank's part is done.
  virtual void run(const Case& what, const std::byte* in, std::byte* out) = 0;
};

struct Result {
  double min = 0, median = 0, p99 = 0;  ///< seconds; of an iteration, the slowest rank
  int iterations = 0;
  std::uint64_t wrong = 0;  ///< elements, over all ranks and checked iterations
};

struct Row {
  Case what;  ///< out of place
  Result out_of_place, in_place;
  bool has_in_place = true;
};

/// Measures all sizes. `each` is called on every rank after each size.
void measure(Implementation& implementation, Board& board, const Request& request, void (*each)(const Row&, void*),
             void* context);

/// measure(), and rank 0 prints the rows as asked for. Returns the exit code: 1 when something was wrong.
int measure_and_print(Implementation& implementation, Board& board, const Request& request);

/// Replaces this process by `launcher` (a command line) with the board in the environment.
[[noreturn]] void launch_with_board(const std::vector<std::string>& launcher, int ranks);

}  // namespace tutti::bench
