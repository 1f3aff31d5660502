// Element types of buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "transports/core/half.hpp"

namespace tutti {

/// bool and complex have no type of their own: pass bool as u8 of 0 and 1 (or is bor, and is band), and complex as
/// twice as many reals (valid for sum, avg and premul_sum).
enum class DType : std::uint8_t { i8, u8, i16, i32, i64, f16, bf16, f32, f64, u16, u32, u64 };
inline constexpr int dtype_count = 12;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::size_t sizes[dtype_count] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 2, 4, 8};
  return sizes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_integer(DType dtype) noexcept { return dtype <= DType::i64 || dtype >= DType::u16; }

/// The type's name, such as "f32". parse() is the inverse; it returns nullopt for any other text.
std::string_view name(DType dtype) noexcept;
std::optional<DType> parse_dtype(std::string_view text) noexcept;

// clang-format off
namespace detail {
template <class T> inline constexpr int dtype_index = -1;
template <> inline constexpr int dtype_index<std::int8_t> = 0;
template <> inline constexpr int dtype_index<std::uint8_t> = 1;
template <> inline constexpr int dtype_index<std::byte> = 1;
template <> inline constexpr int dtype_index<std::int16_t> = 2;
template <> inline constexpr int dtype_index<std::int32_t> = 3;
template <> inline constexpr int dtype_index<std::int64_t> = 4;
template <> inline constexpr int dtype_index<f16> = 5;
template <> inline constexpr int dtype_index<bf16> = 6;
template <> inline constexpr int dtype_index<float> = 7;
template <> inline constexpr int dtype_index<double> = 8;
template <> inline constexpr int dtype_index<std::uint16_t> = 9;
template <> inline constexpr int dtype_index<std::uint32_t> = 10;
template <> inline constexpr int dtype_index<std::uint64_t> = 11;
// `long` and `long long` are distinct 64-bit types, and int64_t is only one of them.
template <> inline constexpr int dtype_index<long long> = sizeof(long long) == 8 ? 4 : -1;
template <> inline constexpr int dtype_index<unsigned long long> = sizeof(long long) == 8 ? 11 : -1;
}  // namespace detail

/// A C++ type that a buffer may hold.
template <class T>
concept Element = detail::dtype_index<T> >= 0;
// clang-format on

template <Element T>
inline constexpr DType dtype_of = static_cast<DType>(detail::dtype_index<T>);

}  // namespace tutti
