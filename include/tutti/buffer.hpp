// Buffer: a non-owning view of memory that a collective reads or writes.
#pragma once

#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include "tutti/dtype.hpp"

namespace tutti {

/// Elements [offset, offset + count).
struct Range {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t end() const noexcept { return offset + count; }
  bool operator==(const Range&) const = default;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// The device that holds a buffer. Providers that cannot access CUDA memory refuse it.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// `count` elements of `dtype` at `data`, read only. Borrowed: the memory must outlive the call's Work.
struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::u8;
  Device device = {};

  ConstBuffer() = default;
  ConstBuffer(const void* memory, std::size_t elements, DType type, Device where = {}) noexcept
      : data(static_cast<const std::byte*>(memory)), count(elements), dtype(type), device(where) {}

  /// `elements` elements of type T.
  template <Element T>
  ConstBuffer(const T* memory, std::size_t elements, Device where = {}) noexcept
      : ConstBuffer(memory, elements, dtype_of<T>, where) {}

  /// From any contiguous range of elements: std::vector, std::array, std::span, ...
  // clang-format off
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && Element<std::remove_const_t<std::ranges::range_value_t<R>>>
  ConstBuffer(const R& range) noexcept  // clang-format on
      : ConstBuffer(std::ranges::data(range), std::ranges::size(range),
                    dtype_of<std::remove_const_t<std::ranges::range_value_t<R>>>) {}

  std::size_t bytes() const noexcept { return count * size_of(dtype); }
  ConstBytes view() const noexcept { return {data, bytes()}; }
};

/// `count` elements of `dtype` at `data`, writable. Borrowed: the memory must outlive the call's Work.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::u8;
  Device device = {};

  Buffer() = default;
  Buffer(void* memory, std::size_t elements, DType type, Device where = {}) noexcept
      : data(static_cast<std::byte*>(memory)), count(elements), dtype(type), device(where) {}

  /// `elements` elements of type T, which is not const.
  template <Element T>
  Buffer(T* memory, std::size_t elements, Device where = {}) noexcept : Buffer(memory, elements, dtype_of<T>, where) {}

  /// From a writable range that outlives this expression: an lvalue container, or a span of non-const elements.
  // clang-format off
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> && std::ranges::borrowed_range<R> &&
             (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>) &&
             Element<std::ranges::range_value_t<R>>
  Buffer(R&& range) noexcept  // clang-format on
      : Buffer(std::ranges::data(range), std::ranges::size(range), dtype_of<std::ranges::range_value_t<R>>) {}

  operator ConstBuffer() const noexcept { return {data, count, dtype, device}; }
  std::size_t bytes() const noexcept { return count * size_of(dtype); }
  Bytes view() const noexcept { return {data, bytes()}; }
};

}  // namespace tutti
