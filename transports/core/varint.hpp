// Numbers of variable length (LEB128): seven bits in each byte, the lowest first, and the high bit where more follow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

inline void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  bytes += static_cast<char>(value);
}

/// Takes a number from the front of `bytes`. nullopt if `bytes` ends within it, or if it is still not over after as
/// many bytes as hold `bits` bits.
inline std::optional<std::uint64_t> take_varint(std::string_view& bytes, unsigned bits) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < bits && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

}  // namespace tutti
