// Array: an immutable, row-major array of one element type. Copies share its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/dtype.hpp"

namespace tutti::engine {

/// Sizes of the dimensions, outermost first; empty for a scalar.
using ArrayShape = std::vector<std::int64_t>;

/// "3x32x32", or "one number".
std::string describe(const ArrayShape& shape);

/// The number of elements. Throws Error{invalid} for a negative dimension or more than 2^40 elements.
std::size_t elements(const ArrayShape& shape);

/// Row-major. Copies share the memory, which lives as long as any of them. Any thread may read. Errors are
/// Error{invalid} and name what was expected and what was found.
class Array {
 public:
  Array() = default;  ///< no elements: f32, shape {0}

  /// `memory` holds the elements, is aligned for them, and is not written any more. If it is null, the elements are
  /// elsewhere (on a device), and the array has only a type and a shape.
  Array(DType dtype, ArrayShape shape, std::shared_ptr<const std::byte> memory);

  /// Takes over the vector without a copy.
  template <Element T>
  Array(std::vector<T> values, ArrayShape shape) : dtype_(dtype_of<T>), shape_(std::move(shape)) {
    count_ = elements(shape_);
    check_count(values.size());
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    memory_ = {owner, reinterpret_cast<const std::byte*>(owner->data())};
  }
  template <Element T>
  explicit Array(std::vector<T> values) {
    ArrayShape shape{static_cast<std::int64_t>(values.size())};
    *this = Array(std::move(values), std::move(shape));
  }

  template <Element T>
  static Array scalar(T value) {
    return Array(std::vector<T>{value}, {});
  }

  /// Allocates an array and calls `fill(std::byte*)` to write all of its memory.
  template <class Fill>
  static Array make(DType dtype, ArrayShape shape, Fill&& fill) {
    const std::size_t bytes = elements(shape) * size_of(dtype);
    const std::shared_ptr<std::byte[]> memory(new std::byte[bytes > 0 ? bytes : 1]);
    fill(memory.get());
    return Array(dtype, std::move(shape), std::shared_ptr<const std::byte>(memory, memory.get()));
  }

  DType dtype() const noexcept { return dtype_; }
  const ArrayShape& shape() const noexcept { return shape_; }
  std::size_t count() const noexcept { return count_; }  ///< number of elements
  std::size_t byte_count() const noexcept { return count_ * size_of(dtype_); }
  bool here() const noexcept { return memory_ || count_ == 0; }  ///< false if the array has only a type and a shape
  const std::shared_ptr<const std::byte>& memory() const noexcept { return memory_; }
  std::span<const std::byte> bytes() const;

  /// The elements. Throws unless they have type T.
  template <Element T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes().data()), count_};
  }
  /// The element of an array with exactly one.
  template <Element T>
  T item() const {
    check_count(1);
    return as<T>()[0];
  }

  /// Element i along the first dimension; shares the memory.
  Array row(std::size_t i) const;
  /// Rows [begin, begin + rows) along the first dimension; shares the memory.
  Array rows(std::size_t begin, std::size_t rows) const;
  /// The same elements with another shape; shares the memory.
  Array reshaped(ArrayShape shape) const;
  /// An array with the same type and shape, without memory.
  Array without_memory() const { return Array(dtype_, shape_, nullptr); }
  /// A copy with element type `dtype`; shares the memory if the type is the same. Conversion to integers rounds toward
  /// zero.
  Array converted(DType dtype) const;

  /// "u8 of 3x32x32".
  std::string describe() const;

 private:
  void check_dtype(DType expected) const;
  void check_count(std::size_t found) const;

  DType dtype_ = DType::f32;
  ArrayShape shape_{0};
  std::size_t count_ = 0;
  std::shared_ptr<const std::byte> memory_;
};

/// Calls `visitor(T())` for the C++ type of `dtype`.
template <class Visitor>
decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::i8: return visitor(std::int8_t());
    case DType::u8: return visitor(std::uint8_t());
    case DType::i16: return visitor(std::int16_t());
    case DType::i32: return visitor(std::int32_t());
    case DType::i64: return visitor(std::int64_t());
    case DType::u16: return visitor(std::uint16_t());
    case DType::u32: return visitor(std::uint32_t());
    case DType::u64: return visitor(std::uint64_t());
    case DType::f16: return visitor(f16());
    case DType::bf16: return visitor(bf16());
    case DType::f32: return visitor(float());
    case DType::f64: break;
  }
  return visitor(double());
}

}  // namespace tutti::engine
