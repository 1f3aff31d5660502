// Next-fit packing: each parameter is put into the last bucket, or into a new one if it does not fit.
#include "nn/bucket.hpp"

#include <numeric>

namespace tutti::nn {

std::vector<std::size_t> last_to_first(std::size_t parameters) {
  std::vector<std::size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

std::vector<BucketPlan> plan_buckets(std::span<const ParameterSize> parameters, std::span<const std::size_t> order,
                                     std::size_t first_bytes, std::size_t cap_bytes) {
  std::vector<BucketPlan> plan;
  for (const std::size_t i : order) {
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
