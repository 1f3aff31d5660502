// Bucket plan: which gradients travel together. Pure arithmetic, no tensors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/core/dtype.hpp"

namespace tutti::nn {

struct ParameterSize {
  DType dtype = DType::f32;
  std::size_t count = 0;
};

struct BucketPlan {
  DType dtype = DType::f32;
  std::vector<std::size_t> parameters;  ///< indices, in the order they lie in the bucket
  std::vector<std::size_t> offsets;     ///< elements; of each of them
  std::size_t count = 0;                ///< elements of all of them
};

/// From the last parameter to the first, which is about the order in which backward yields gradients.
std::vector<std::size_t> last_to_first(std::size_t parameters);

/// Fills buckets with all parameters in this order. A bucket holds one dtype and at most `cap_bytes` (the first
/// `first_bytes`), but at least one parameter.
std::vector<BucketPlan> plan_buckets(std::span<const ParameterSize> parameters, std::span<const std::size_t> order,
                                     std::size_t first_bytes, std::size_t cap_bytes);

}  // namespace tutti::nn
