// Random operands and the sequential reference for every collective, in float64 or 64-bit integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/core/collective.hpp"

namespace tutti::testing {

/// `count` random elements; the same for the same seed. Floating-point values are of mixed sign and magnitude.
std::vector<std::byte> random_data(DType dtype, std::size_t count, std::uint64_t seed);

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
