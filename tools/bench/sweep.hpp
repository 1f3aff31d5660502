// Sweep: what is measured, over which sizes. Only core lies below it, so that a peer's program needs nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/collective.hpp"

namespace tutti::bench {

struct Sweep {
  Kind kind = Kind::allreduce;  ///< send stands for sendrecv: to the next rank, from the previous one
  std::int64_t first = 8, last = 64 << 20;
  double factor = 2;  ///< at least least_factor
  int skip = 0;       ///< this many of the sizes are left out: first * factor^skip is the first one
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int iterations = 0;  ///< 0: as many as take a tenth of a second, 20 to 2000
  int warmup = 5;
  bool check = true;
  bool touch = true;         ///< between iterations, rewrite the inputs and read the outputs
  bool in_place = true;      ///< measure that too, where there is such a thing
  std::string overlap = {};  ///< "compute", "idle": what goes on between the start of a call and its wait; "": nothing
  double late = 0;           ///< seconds by which the last rank comes late; 0: not at all
};

inline constexpr double least_factor = 1.05;

/// first, first * factor, ... up to last, in whole bytes.
std::vector<std::int64_t> sizes_of(const Sweep& sweep);

/// A sweep as words, "kind=allreduce" and so on: how a peer's program is told. parse_sweep() is the reverse; it throws
/// Error{invalid}.
std::vector<std::string> words_of(const Sweep& sweep);
Sweep parse_sweep(std::span<const std::string> words);

/// One measurement: what is called, on how many elements.
struct Case {
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  Reduction op = sum;
  int root = 0;
  int ranks = 1;
  std::size_t count = 0;  ///< elements, as core/collective.hpp counts for this kind
  bool in_place = false;

  std::size_t in_count() const noexcept;   ///< elements of the largest `in` of a rank
  std::size_t out_count() const noexcept;  ///< and `out`
  std::size_t bytes() const noexcept;      ///< of the larger of the two: the size column
  bool reduces() const noexcept;
  /// Bus bandwidth / algorithm bandwidth, as nccl-tests defines it.
  double bus_factor() const noexcept;
};

/// What is measured beside a call's time, by column: see modes.hpp.
std::vector<std::string> extra_names(const Sweep& sweep);
/// For people: what the time and the extras then are; "" where the time is a call's.
std::string mode_text(const Sweep& sweep);

/// One out-of-place case for each size asked for, without repetitions: of so many whole elements as the size holds, or,
/// where the factor is no whole number, of as many as come closest to it.
std::vector<Case> cases(const Sweep& sweep, int ranks);

/// premul_sum is measured with the factor 2.
Reduction reduction_of(Op op) noexcept;

/// "sendrecv" for Kind::send, else the kind's name; and the reverse, nothing for what is none.
std::string_view collective_name(Kind kind) noexcept;
std::optional<Kind> parse_collective(std::string_view text) noexcept;

}  // namespace tutti::bench
