// Range: consecutive numbers, and their division into shares.
#pragma once

#include <cstddef>

namespace tutti::engine {

struct Range {
  std::size_t begin = 0, count = 0;
};

/// Part `rank` of [0, total) divided into `size` contiguous parts whose sizes differ by at most one.
constexpr Range share(std::size_t total, int rank, int size) noexcept {
  const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(size);
  const std::size_t low = total / p, more = total % p;
  return {r * low + (r < more ? r : more), low + (r < more ? 1 : 0)};
}

}  // namespace tutti::engine
