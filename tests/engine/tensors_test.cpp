// Arrays and LibTorch's tensors share their memory.
#include "engine/data/tensors.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

TEST(Tensors, ShareTheMemoryOfAnArrayAndKeepIt) {
  at::Tensor tensor;
  {
    const Array array(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
    tensor = to_tensor(array.rows(1, 2));
    EXPECT_EQ(tensor.data_ptr(), array.as<float>().data() + 2);
  }
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(tensor.sum().item<float>(), 18);
}

TEST(Tensors, AreSharedByAnArrayThatKeepsThem) {
  Array array, turned;
  {
    const at::Tensor tensor = at::arange(6, at::kLong).reshape({2, 3});
    array = to_array(tensor);
    turned = to_array(tensor.t());  // is not contiguous
    EXPECT_EQ(array.as<std::int64_t>().data(), tensor.data_ptr());
  }
  EXPECT_THAT(array.as<std::int64_t>(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(turned.as<std::int64_t>(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(refusal([] { to_array(at::zeros({2}, at::kBool)); }), HasSubstr("Bool"));
}

TEST(Tensors, KnowEveryElementType) {
  for (int i = 0; i < dtype_count; ++i) {
    if (!has_tensors(static_cast<DType>(i))) continue;
    const Array array = Array(std::vector<std::int32_t>{0, 5}).converted(static_cast<DType>(i));
    const at::Tensor tensor = to_tensor(array);
    EXPECT_EQ(tensor.to(at::kDouble)[1].item<double>(), 5) << array.describe();
    EXPECT_EQ(to_array(tensor).dtype(), array.dtype());
  }
  EXPECT_EQ(to_tensor(Array(DType::f64, {0, 3}, nullptr)).sizes(), (std::vector<std::int64_t>{0, 3}));
}

}  // namespace
}  // namespace tutti::engine
