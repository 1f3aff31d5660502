// Arithmetic on counts and sizes that were read from files or sockets: a result that does not fit is reported and never
// wraps.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/clock.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// first * sizes[0] * sizes[1] ...; nullopt if one of them is negative, or the product exceeds `most`.
inline std::optional<std::size_t> checked_product(std::size_t first, std::span<const std::int64_t> sizes,
                                                  std::size_t most = PTRDIFF_MAX) noexcept {
  std::size_t product = first;
  bool fits = true, empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
    fits = fits && !__builtin_mul_overflow(product, static_cast<std::size_t>(size), &product) && product <= most;
  }
  if (empty) return 0;
  return fits ? std::optional(product) : std::nullopt;
}

inline std::optional<std::size_t> checked_product(std::size_t a, std::size_t b,
                                                  std::size_t most = PTRDIFF_MAX) noexcept {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > most ? std::nullopt : std::optional(product);
}

/// Returns `given`. Throws Error{invalid}, with the argument's name `what`, if `given` is not a number (NaN).
inline Seconds checked_seconds(Seconds given, std::string_view what) {
  if (!std::isnan(given.count())) return given;
  throw Error(Code::invalid, std::string(what) + " is not a number (NaN); give seconds");
}

/// The sum; nullopt if it exceeds `most`.
inline std::optional<std::size_t> checked_sum(std::span<const std::size_t> counts,
                                              std::size_t most = PTRDIFF_MAX) noexcept {
  std::size_t total = 0;
  for (const std::size_t count : counts)
    if (__builtin_add_overflow(total, count, &total) || total > most) return std::nullopt;
  return total;
}

/// Returns true if the range of `count` elements that starts at `offset` lies within `size` elements.
inline bool lies_within(std::size_t offset, std::size_t count, std::size_t size) noexcept {
  return offset <= size && count <= size - offset;
}

}  // namespace tutti
