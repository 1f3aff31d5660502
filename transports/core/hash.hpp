// Hashes of names.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

/// FNV-1a in 64 bits (Fowler, Noll & Vo, 1991): the same on every machine.
constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace tutti
