// Copying where it matters how: into memory that another core reads next, and past the caches.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace tutti {

namespace detail {
inline constexpr std::size_t small_copy = 4096;  // below it memcpy is as good as anything, and one jump
void copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
void fetch_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
}  // namespace detail

/// memcpy() for staging: what another core reads next. Larger blocks go by the processor's own string
/// instruction where it is fast (ERMS, FSRM): it takes lines over without reading them first. Not for those distances
/// of the two at which AMD's is slow. glibc's memcpy does likewise, but leaves it for vectors or for streaming stores
/// above sizes that differ by processor, and has no eye for distances.
inline void copy(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) {
    if (bytes > 0) std::memcpy(into, from, bytes);  // of nothing, the addresses may be null
  } else {
    detail::copy_large(into, from, bytes);
  }
}

/// memcpy() of what another core has written, to where only this one needs it. By vectors where the processor's string
/// instruction is slow to read such lines: AMD's.
inline void fetch(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) {
    if (bytes > 0) std::memcpy(into, from, bytes);
  } else {
    detail::fetch_large(into, from, bytes);
  }
}

/// memcpy() past the caches, for what is larger than the last of them and not read again soon. What follows in
/// program order, such as a flag, is seen after it. On other processors than x86 it is memcpy.
void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;

/// Past the caches at any length, and without the order: the processor goes on reading while piece after piece is
/// written. What follows order_copies() is seen after them.
void copy_unordered(std::byte* into, const std::byte* from, std::size_t bytes) noexcept;
void order_copies() noexcept;

/// How copy() copies larger blocks here: "fsrm" or "erms" (rep movsb), or "memcpy".
std::string_view copy_way() noexcept;

}  // namespace tutti
