// The measuring loop, one for all implementations.
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

/// Zeroed, present, aligned to pages; at least 64 bytes.
std::shared_ptr<std::byte> ordinary_memory(std::size_t bytes);

/// A library that can be measured.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// "" or why it cannot do this.
  virtual std::string refuses(const Case& what) const = 0;
  /// A buffer for `in` or `out`, zeroed and present; every rank asks for as many, in the same order. By default
  /// ordinary_memory().
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes);
  /// Where calls work on copies of those buffers: after they were written here, and before they are looked at.
  virtual void written() {}
  virtual void looked_at() {}
  /// Starts the call and returns when this rank's part is done.
  virtual void run(const Case& what, const std::byte* in, std::byte* out) = 0;
  /// Starts the call, computes, and waits. By default throws Error{invalid}.
  virtual void run_beside(const Case& what, const std::byte* in, std::byte* out, const std::function<void()>& compute);
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
  std::vector<double> extras = {};  ///< as extra_names() says
};

/// Measures all sizes. `each` is called on every rank after each size.
void measure(Implementation& implementation, Board& board, const Sweep& sweep, void (*each)(const Row&, void*),
             void* context);

}  // namespace tutti::bench
