// TUTTI_MPI_CHECK: what MPI makes of a call beside what tutti makes of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/staging.hpp"
#include "bindings/mpi/types.hpp"

namespace tutti::preload {

/// Ends the job, after saying both values, where `ours` and `theirs` differ by more than they may; `magnitudes`, of a
/// sum of floating point: for each element the sum of absolute values.
void compare_results(std::span<const std::byte> ours, std::span<const std::byte> theirs,
                     std::span<const double> magnitudes, const std::optional<Folding>& folding, const Known& known,
                     std::string_view function);

/// An element of f32 or f64.
double real_at(const std::byte* data, DType dtype, std::size_t i);

/// Made before tutti's call: MPI's comes first, on the program's own buffers, which then are as they were. Compares
/// afterwards. Collective over the call's communicator. Moves, integers, min and max must be equal bit by bit, but for
/// the sign of a zero and NaN; sums and products of floating point within the error bound of any order.
class Comparison {
 public:
  Comparison(const Call& call, const Original& original, const Known& known, const std::optional<Folding>& folding);
  /// What MPI's call returned; where it is an error, the program's call ends with it.
  int result() const noexcept { return result_; }
  /// Ends the job, after saying both values, where they differ.
  void compare() const;

 private:
  void note_magnitudes();

  const Call& call_;
  const Known& known_;
  const std::optional<Folding> folding_;
  std::optional<Side> output_;  // nothing on a rank that has no result
  std::vector<std::byte> theirs_;
  std::vector<double> magnitudes_;  ///< of each element of the result: the sum of the absolute values, as doubles
  int result_ = 0;
};

}  // namespace tutti::preload
