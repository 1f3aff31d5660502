// The measuring loop, the same for all implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/board.hpp"
#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// Returns zeroed, resident, page-aligned memory of at least 64 bytes.
std::shared_ptr<std::byte> ordinary_memory(std::size_t bytes);

/// A library that can be measured.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Returns why the implementation cannot perform this call, or an empty string.
  virtual std::string refuses(const Case& what) const = 0;
  /// Returns a zeroed and resident buffer for `in` or `out`; by default ordinary_memory(). Every rank asks for the same
  /// number of buffers in the same order.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes);
  /// For implementations whose calls use copies of the buffers. written() is called after the inputs were written,
  /// looked_at() before the outputs are read.
  virtual void written() {}
  virtual void looked_at() {}
  /// Performs the call. Returns when this rank's part is complete.
  virtual void run(const Case& what, const std::byte* in, std::byte* out) = 0;
  /// Starts the call, runs `compute`, and waits for the call. By default throws Error{invalid}.
  virtual void run_beside(const Case& what, const std::byte* in, std::byte* out, const std::function<void()>& compute);
};

struct Result {
  double min = 0, median = 0, p99 = 0;  ///< in seconds; an iteration lasts until its slowest rank is done
  int iterations = 0;
  std::uint64_t wrong = 0;  ///< number of wrong elements, over all ranks and checked iterations
};

struct Row {
  Case what;  ///< the out-of-place case
  Result out_of_place, in_place;
  bool has_in_place = true;
  std::vector<double> extras = {};  ///< the values of extra_names()
};

/// Measures all sizes. Calls `each` with `context` on every rank after each size. Throws Error{invalid} if the
/// implementation refuses a size.
void measure(Implementation& implementation, Board& board, const Sweep& sweep, void (*each)(const Row&, void*),
             void* context);

}  // namespace tutti::bench
