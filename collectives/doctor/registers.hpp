// The registers of a thread, in DWARF's numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::doctor {

/// 17 of x86-64, 32 of 64-bit ARM and its program counter.
inline constexpr std::size_t register_count = 33;
#ifdef __x86_64__
inline constexpr std::size_t stack_register = 7;
#else
inline constexpr std::size_t stack_register = 31, link_register = 30;
#endif

/// The values that are known.
using Registers = std::array<std::optional<std::uint64_t>, register_count>;

/// An address without the signature that 64-bit ARM may keep in its upper bits.
inline std::uint64_t plain_address(std::uint64_t address) noexcept {
#ifdef __x86_64__
  return address;
#else
  return address & ((std::uint64_t{1} << 48) - 1);
#endif
}

}  // namespace tutti::doctor
