// Memory copies tuned for data that another core reads next, and for data that should bypass the caches.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace tutti {

namespace detail {
inline constexpr std::size_t small_copy = 4096;  // below this size a plain memcpy is as fast, and costs one branch
void copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
void fetch_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
}  // namespace detail

/// memcpy() into a staging buffer that another core reads next. Larger blocks use rep movsb where it is fast (ERMS,
/// FSRM), because it takes ownership of cache lines without reading them first. On AMD it is not used for distances of
/// source and destination at which it is slow. glibc's memcpy uses rep movsb too, but switches to vector or streaming
/// stores above processor-specific sizes and does not check distances.
inline void copy(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) {
    if (bytes > 0) std::memcpy(into, from, bytes);  // with no bytes the addresses may be null
  } else {
    detail::copy_large(into, from, bytes);
  }
}

/// memcpy() of data that another core has written, into memory that only this core uses. Uses vector loads on AMD,
/// where rep movsb reads such lines slowly.
inline void fetch(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) {
    if (bytes > 0) std::memcpy(into, from, bytes);
  } else {
    detail::fetch_large(into, from, bytes);
  }
}

/// memcpy() with non-temporal stores, for data larger than the last-level cache that is not read again soon. Later
/// stores in program order, such as a flag, become visible after it. Plain memcpy on processors other than x86.
void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;

/// memcpy() with non-temporal stores at any length and without ordering, so that loads and stores overlap. The data
/// become visible before any store that follows order_copies().
void copy_unordered(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
void order_copies() noexcept;

/// The method that copy() uses for larger blocks: "fsrm" or "erms" (rep movsb), or "memcpy".
std::string_view copy_way() noexcept;

}  // namespace tutti
