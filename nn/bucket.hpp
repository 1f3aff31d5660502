// Bucket plan: which gradients share an allreduce. Pure arithmetic on sizes; no tensors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/dtype.hpp"

namespace tutti::nn {

struct ParameterSize {
  DType dtype = DType::f32;
  std::size_t count = 0;
};

struct BucketPlan {
  DType dtype = DType::f32;
  std::vector<std::size_t> parameters;  ///< indices of the parameters, in the order in which they lie in the bucket
  std::vector<std::size_t> offsets;     ///< offset of each parameter in the bucket, in elements
  std::size_t count = 0;                ///< elements in the bucket
};

/// The indices from the last parameter to the first: about the order in which backward produces gradients.
std::vector<std::size_t> last_to_first(std::size_t parameters);

/// Distributes all parameters over buckets, in `order`. The parameters of a bucket have one dtype and at most
/// `cap_bytes` in all (`first_bytes` for the first bucket), except that a single parameter may be larger.
std::vector<BucketPlan> plan_buckets(std::span<const ParameterSize> parameters, std::span<const std::size_t> order,
                                     std::size_t first_bytes, std::size_t cap_bytes);

}  // namespace tutti::nn
