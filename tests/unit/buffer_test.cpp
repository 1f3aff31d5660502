// The arguments from which buffers are made: ranges, typed pointers, and untyped ones with an element type.
#include "tutti/buffer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <vector>

namespace tutti::testing {
namespace {

/// Checks that a pointer to T makes the same buffers as an untyped pointer with T's element type.
template <class T>
void expect_typed(DType dtype) {
  alignas(T) std::byte memory[4 * sizeof(T)] = {};
  T* const typed = reinterpret_cast<T*>(memory);
  const T* const constant = typed;
  for (const Device where : {Device(), Device{Device::Kind::cuda, 3}}) {
    for (const ConstBuffer& made : {ConstBuffer(typed, 4, where), ConstBuffer(constant, 4, where),
                                    ConstBuffer(Buffer(typed, 4, where)), ConstBuffer(memory, 4, dtype, where)}) {
      EXPECT_EQ(made.data, memory);
      EXPECT_EQ(made.count, 4U);
      EXPECT_EQ(made.dtype, dtype);
      EXPECT_EQ(made.device, where);
      EXPECT_EQ(made.bytes(), sizeof memory);
    }
  }
  EXPECT_EQ(Buffer(typed, 4).device, Device());
}

TEST(Buffer, FromATypedPointer) {
  expect_typed<std::int8_t>(DType::i8);
  expect_typed<std::uint8_t>(DType::u8);
  expect_typed<std::byte>(DType::u8);
  expect_typed<std::int16_t>(DType::i16);
  expect_typed<std::uint16_t>(DType::u16);
  expect_typed<std::int32_t>(DType::i32);
  expect_typed<std::uint32_t>(DType::u32);
  expect_typed<std::int64_t>(DType::i64);
  expect_typed<long long>(DType::i64);
  expect_typed<std::uint64_t>(DType::u64);
  expect_typed<f16>(DType::f16);
  expect_typed<bf16>(DType::bf16);
  expect_typed<float>(DType::f32);
  expect_typed<double>(DType::f64);
}

TEST(Buffer, APointerMayBeNullAndTheTypeStays) {
  double* const nothing = nullptr;
  EXPECT_EQ(Buffer(nothing, 0).dtype, DType::f64);
  EXPECT_EQ(ConstBuffer(nothing, 0).bytes(), 0U);
}

TEST(Buffer, OfAPointerAndOfItsRangeAreTheSame) {
  std::vector<float> values(5);
  std::array<std::int32_t, 3> numbers{};
  EXPECT_EQ(Buffer(values.data(), values.size()).dtype, Buffer(values).dtype);
  EXPECT_EQ(Buffer(values.data(), values.size()).data, Buffer(values).data);
  EXPECT_EQ(ConstBuffer(numbers.data(), numbers.size()).bytes(), ConstBuffer(numbers).bytes());
}

TEST(Buffer, RefusesOtherTypesAndConstOutput) {
  EXPECT_TRUE((std::is_constructible_v<Buffer, float*, std::size_t>));
  EXPECT_FALSE((std::is_constructible_v<Buffer, const float*, std::size_t>));
  EXPECT_TRUE((std::is_constructible_v<ConstBuffer, const float*, std::size_t>));
  EXPECT_FALSE((std::is_constructible_v<Buffer, void*, std::size_t>));  // no type is given
  EXPECT_FALSE((std::is_constructible_v<ConstBuffer, const void*, std::size_t>));
  EXPECT_FALSE((std::is_constructible_v<Buffer, long double*, std::size_t>));
  EXPECT_FALSE((std::is_constructible_v<ConstBuffer, bool*, std::size_t>));
  EXPECT_FALSE((std::is_constructible_v<ConstBuffer, float**, std::size_t>));
}

}  // namespace
}  // namespace tutti::testing
