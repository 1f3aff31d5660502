// The two 16-bit floating-point types, as storage: arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

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
    half = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;  // may carry into infinity, rightly
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

}  // namespace tutti
