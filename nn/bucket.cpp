// Greedy filling, in reverse order.
#include "nn/bucket.hpp"

namespace tutti::nn {

std::vector<BucketPlan> plan_buckets(std::span<const ParameterSize> parameters, std::size_t first_bytes,
                                     std::size_t cap_bytes) {
  std::vector<BucketPlan> plan;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto [dtype, count] = parameters[i];
    const std::size_t cap = plan.size() <= 1 ? first_bytes : cap_bytes;
    if (plan.empty() || plan.back().dtype != dtype || (plan.back().count + count) * size_of(dtype) > cap)
      plan.push_back({dtype, {}, {}, 0});
    BucketPlan& bucket = plan.back();
    bucket.parameters.push_back(i);
    bucket.offsets.push_back(bucket.count);
    bucket.count += count;
  }
  return plan;
}

}  // namespace tutti::nn
