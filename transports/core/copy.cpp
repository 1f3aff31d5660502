// Copying by rep movsb and by non-temporal stores, each where the processor is good at it.
#include "transports/core/copy.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t erms_from = 8192;  // its start-up is long without FSRM

struct Way {
  std::string_view name = "memcpy";
  std::size_t from = SIZE_MAX;  // the size from which rep movsb is used
};

Way look() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  if (edx & 1u << 4) return {"fsrm", detail::small_copy};
  if (ebx & 1u << 9) return {"erms", erms_from};
  return {};
}

const Way& way() noexcept {
  static const Way found = look();
  return found;
}

// Bytes up to the next line.
std::size_t head_of(const std::byte* into) noexcept { return -reinterpret_cast<std::uintptr_t>(into) % line; }

}  // namespace

void detail::copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < way().from) {
    std::memcpy(into, from, bytes);
    return;
  }
  if (const std::size_t head = head_of(into); head > 0) {  // whole lines are taken over without being read
    std::memcpy(into, from, head);
    into += head;
    from += head;
    bytes -= head;
  }
  asm volatile("rep movsb" : "+D"(into), "+S"(from), "+c"(bytes) : : "memory");
}

void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) return copy(into, from, bytes);
  const std::size_t head = head_of(into);
  std::memcpy(into, from, head);
  std::size_t i = head;
  for (; i + line <= bytes; i += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(into + i);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(into + i, from + i, bytes - i);
  _mm_sfence();  // these stores are not ordered by a release
}

std::string_view copy_way() noexcept { return way().name; }

#else

void detail::copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(into, from, bytes);
}

void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept { copy(into, from, bytes); }

std::string_view copy_way() noexcept { return "memcpy"; }

#endif

std::size_t cache_bytes() noexcept {
  static constexpr std::size_t unknown = std::size_t{32} << 20, most = std::size_t{64} << 20;
  static const std::size_t bytes = [] {
    long last = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    last = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return last > 0 ? std::min(static_cast<std::size_t>(last), most) : unknown;
  }();
  return bytes;
}

}  // namespace tutti
