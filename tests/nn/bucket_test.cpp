// The bucket plan: order, sizes, dtypes.
#include "nn/bucket.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::nn {
namespace {

TEST(BucketPlan, FillsFromTheLastParameterWithASmallFirstBucket) {
  const ParameterSize sizes[] = {{DType::f32, 10}, {DType::f32, 20}, {DType::f32, 30}, {DType::f32, 5}};
  const auto plan = plan_buckets(sizes, last_to_first(std::size(sizes)), 20, 200);
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[0].parameters, std::vector<std::size_t>{3});
  EXPECT_EQ(plan[0].count, 5U);
  EXPECT_EQ(plan[2].parameters, std::vector<std::size_t>{0});
  EXPECT_EQ(plan[1].parameters, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(plan[1].offsets, (std::vector<std::size_t>{0, 30}));
}

TEST(BucketPlan, KeepsToTheCapAndLosesNothing) {
  std::vector<ParameterSize> sizes;
  for (std::size_t i = 0; i < 100; ++i) sizes.push_back({DType::f64, 1 + (i * 37) % 50});
  const auto plan = plan_buckets(sizes, last_to_first(std::size(sizes)), 100 * 8, 300 * 8);
  std::size_t next = sizes.size();
  for (std::size_t b = 0; b < plan.size(); ++b) {
    EXPECT_LE(plan[b].count, b == 0 ? 100U : 300U);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < plan[b].parameters.size(); ++i) {
      EXPECT_EQ(plan[b].parameters[i], --next);
      EXPECT_EQ(plan[b].offsets[i], offset);
      offset += sizes[next].count;
    }
    EXPECT_EQ(plan[b].count, offset);
  }
  EXPECT_EQ(next, 0U);
}

TEST(BucketPlan, GivesALargeParameterABucketOfItsOwn) {
  const ParameterSize sizes[] = {{DType::f32, 1}, {DType::f32, 1000}, {DType::f32, 1}};
  const auto plan = plan_buckets(sizes, last_to_first(std::size(sizes)), 40, 40);
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[1].count, 1000U);
}

TEST(BucketPlan, NeverMixesTypes) {
  const ParameterSize sizes[] = {{DType::f32, 1}, {DType::f64, 1}, {DType::f64, 1}, {DType::f32, 1}};
  const auto plan = plan_buckets(sizes, last_to_first(std::size(sizes)), 1000, 1000);
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[1].dtype, DType::f64);
  EXPECT_EQ(plan[1].count, 2U);
}

TEST(BucketPlan, TakesAnyOrder) {
  const ParameterSize sizes[] = {{DType::f32, 1}, {DType::f32, 2}, {DType::f32, 4}};
  const std::size_t order[] = {1, 2, 0};
  const auto plan = plan_buckets(sizes, order, 100, 100);
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan[0].parameters, (std::vector<std::size_t>{1, 2, 0}));
  EXPECT_EQ(plan[0].offsets, (std::vector<std::size_t>{0, 2, 6}));
}

TEST(BucketPlan, OfNothingIsEmpty) { EXPECT_TRUE(plan_buckets({}, {}, 10, 10).empty()); }

}  // namespace
}  // namespace tutti::nn
