// TUTTI_MPI_CHECK: compares the results of tutti with those of MPI.
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

/// Logs both values and aborts the job if `ours` and `theirs` differ by more than the tolerance. `magnitudes`, for
/// floating-point sums: the sum of absolute values per element.
void compare_results(std::span<const std::byte> ours, std::span<const std::byte> theirs,
                     std::span<const double> magnitudes, const std::optional<Folding>& folding, const Known& known,
                     std::string_view function);

/// Element i of an array of f32 or f64.
double real_at(const std::byte* data, DType dtype, std::size_t i);

/// Constructed before tutti's call: makes MPI's call on the program's buffers, keeps its result and restores the
/// buffers. compare() is called after tutti's call. Collective over the call's communicator. Moved data, integers, min
/// and max must be bitwise equal, except for signs of zeros and NaN; floating-point sums and products must agree within
/// the error bound for any order.
class Comparison {
 public:
  Comparison(const Call& call, const Original& original, const Known& known, const std::optional<Folding>& folding);
  /// The result of MPI's call. If it is an error, the program's call returns it.
  int result() const noexcept { return result_; }
  /// Logs both values and aborts the job if the results differ.
  void compare() const;

 private:
  void note_magnitudes();

  const Call& call_;
  const Known& known_;
  const std::optional<Folding> folding_;
  std::optional<Side> output_;  // empty on a rank without a result
  std::vector<std::byte> theirs_;
  std::vector<double> magnitudes_;  ///< per element of the result: the sum of the absolute values
  int result_ = 0;
};

}  // namespace tutti::preload
