// Views: the element types that programs use and how the library represents them. One table for all bindings.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"

namespace tutti::bindings {

enum class Meaning { number, truth, complex, bytes };

/// One item of a program's array is `elements` elements of `dtype`.
struct View {
  std::string_view name;  ///< "f32", "bool", "c64", "bytes"
  Meaning meaning = Meaning::number;
  DType dtype = DType::u8;
  std::size_t elements = 1;

  std::size_t item_bytes() const noexcept { return elements * size_of(dtype); }
};

/// The twelve types in the order of DType, then bool, c64, c128 and bytes.
std::span<const View> views() noexcept;
std::optional<View> find_view(std::string_view name) noexcept;
inline constexpr std::size_t bool_view = dtype_count, c64_view = bool_view + 1, c128_view = bool_view + 2,
                             bytes_view = bool_view + 3;

/// The operator on a view's elements that means `wanted` for its items: for bool, sum is or and prod is and. Throws
/// Error{invalid} if the operator is not defined for the type.
Reduction reduction_on(const View& view, Reduction wanted);

}  // namespace tutti::bindings
