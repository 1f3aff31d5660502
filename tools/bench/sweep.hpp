// Sweep: the collective and the sizes to measure. Depends on core/ alone, because programs for peers contain it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/collective.hpp"

namespace tutti::bench {

struct Sweep {
  Kind kind = Kind::allreduce;  ///< send means sendrecv: to the next rank, from the previous one
  std::int64_t first = 8, last = 64 << 20;
  double factor = 2;  ///< at least least_factor
  int skip = 0;       ///< number of sizes to omit at the start: the first size is first * factor^skip
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int iterations = 0;  ///< iterations per size; 0: as many as take `seconds`
  double seconds = 0;  ///< time per size, at least one iteration; 0: 0.1 s, at least 20 iterations
  int warmup = 5;
  bool check = true;
  bool touch = true;         ///< rewrite the inputs and read the outputs between iterations
  bool in_place = true;      ///< also measure in place, if the collective has that form
  std::string overlap = {};  ///< what runs between a call's start and its wait: "compute", "idle", or nothing
  double late = 0;           ///< seconds by which the last rank enters the call late; 0: measure no lateness
};

inline constexpr double least_factor = 1.05;

/// Returns first, first * factor, ... up to last, rounded to whole bytes.
std::vector<std::int64_t> sizes_of(const Sweep& sweep);

/// words_of() returns a sweep as words such as "kind=allreduce", for the program of a peer. parse_sweep() is the
/// inverse; it throws Error{invalid}.
std::vector<std::string> words_of(const Sweep& sweep);
Sweep parse_sweep(std::span<const std::string> words);

/// One measurement: a collective and its number of elements.
struct Case {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int ranks = 1;
  std::size_t count = 0;  ///< elements, as core/collective.hpp counts them for this kind
  bool in_place = false;

  std::size_t in_count() const noexcept;   ///< elements of the largest `in` of any rank
  std::size_t out_count() const noexcept;  ///< elements of the largest `out` of any rank
  std::size_t bytes() const noexcept;      ///< bytes of the larger one, in or out; shown as the size
  bool reduces() const noexcept;
  /// Returns bus bandwidth / algorithm bandwidth, as nccl-tests defines it.
  double bus_factor() const noexcept;
};

/// Returns the names of the values that are measured besides the time; see modes.hpp.
std::vector<std::string> extra_names(const Sweep& sweep);
/// Describes the time and the extras for people; empty if the time is that of a plain call.
std::string mode_text(const Sweep& sweep);

/// Returns one out-of-place case for each size, without repetitions. A size is rounded down to whole elements, or, if
/// the factor is not an integer, to the nearest number of elements.
std::vector<Case> cases(const Sweep& sweep, int ranks);

/// Returns the reduction to measure for `op`. The factor of premul_sum is 2.
Reduction reduction_of(Op op) noexcept;

/// Returns "sendrecv" for Kind::send, otherwise the kind's name. parse_collective() is the inverse; it returns nothing
/// for an unknown name.
std::string_view collective_name(Kind kind) noexcept;
std::optional<Kind> parse_collective(std::string_view text) noexcept;

}  // namespace tutti::bench
