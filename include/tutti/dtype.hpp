// Element types of buffers, and the two 16-bit floating-point types as storage: arithmetic is done in float.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even; NaN stays NaN.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const f16&) const = default;  // of the bits
};

/// bfloat16: the upper half of a float. Rounding as for f16.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) noexcept;
  explicit operator float() const noexcept;
  bool operator==(const bf16&) const = default;  // of the bits
};

inline bf16::bf16(float value) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  bits = nan ? static_cast<std::uint16_t>((word >> 16) | 0x0040u)
             : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

inline bf16::operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline f16::f16(float value) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN, quiet, payload kept
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;  // 65536 and above
  } else if (magnitude < 0x38800000u) {
    // Subnormal in binary16: adding 0.5 lets the FPU shift and round for us.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;  // may correctly carry into infinity
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

inline f16::operator float() const noexcept {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

/// There is no DType for bool or complex. Pass bool as u8 of 0 and 1 (logical or is bor, logical and is band). Pass n
/// complex numbers as 2n reals (valid for sum, avg and premul_sum).
enum class DType : std::uint8_t { i8, u8, i16, i32, i64, f16, bf16, f32, f64, u16, u32, u64 };
inline constexpr int dtype_count = 12;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::size_t sizes[dtype_count] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 2, 4, 8};
  return sizes[static_cast<std::size_t>(dtype)];
}

constexpr bool is_integer(DType dtype) noexcept { return dtype <= DType::i64 || dtype >= DType::u16; }

/// The type's name, such as "f32". parse_dtype() is the inverse; it returns nullopt for any other text.
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
