// Random operands and the sequential reference for every collective, in float64 or 64-bit integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/collective.hpp"

namespace tutti::testing {

using Data = std::vector<std::byte>;

/// Returns `count` random elements, the same for the same seed. Floating-point values have mixed signs and magnitudes.
std::vector<std::byte> random_data(DType dtype, std::size_t count, std::uint64_t seed);

/// The ranks' data for one another in calls that move blocks and reduce nothing. If they are `variable`, the counts
/// differ.
class Blocks {
 protected:
  Blocks(DType dtype, std::size_t count, bool variable) : dtype_(dtype), count_(count), variable_(variable) {}

  std::size_t width() const { return size_of(dtype_); }
  /// The elements of rank `rank`'s block, and those of rank a for rank b.
  std::size_t counted(int rank) const { return variable_ ? count_ * static_cast<std::size_t>(rank % 3) : count_; }
  std::size_t pair(int a, int b) const {
    return variable_ ? (count_ + static_cast<std::size_t>(a + 2 * b)) % (count_ + 1) : count_;
  }
  Data block(int a, int b, std::size_t count) const {
    return random_data(dtype_, count, static_cast<std::uint64_t>(1000 + 50 * a + b));
  }
  static void append(Data& to, const Data& more) { to.insert(to.end(), more.begin(), more.end()); }

  const DType dtype_;
  const std::size_t count_;
  const bool variable_;
};

/// Element `i` as a double (exact for all but large i64), and as an integer.
double real_at(DType dtype, const std::byte* data, std::size_t i);
std::int64_t integer_at(DType dtype, const std::byte* data, std::size_t i);

/// Compares `result` with the fold of `inputs` (one per rank, `offset` elements in); "" or what is
/// wrong: "element 17 is 3.5 but should be 4 +- 1e-6". Integers and min/max must be exact, sums within
/// p * eps * sum|x|, products within p * eps of themselves.
std::string check_fold(DType dtype, Reduction op, const std::vector<std::vector<std::byte>>& inputs, std::size_t offset,
                       const std::byte* result, std::size_t count);

/// FNV-1a, to compare results across ranks.
std::uint64_t checksum(const std::byte* data, std::size_t bytes, std::uint64_t seed = 0xcbf29ce484222325ull);

}  // namespace tutti::testing
