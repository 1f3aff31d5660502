// Copies by rep movsb and by non-temporal stores, chosen by processor.
#include "transports/core/copy.hpp"

#include <algorithm>
#include <cstdint>

#include "transports/core/host.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t erms_from = 8192;  // without FSRM, rep movsb starts slowly

struct Way {
  std::string_view name = "memcpy";
  std::size_t from = SIZE_MAX;  // the size from which rep movsb is used
  bool amd = false;
};

bool made_by_amd() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ecx == signature_AMD_ecx;
}

Way look() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  if (edx & 1u << 4) return {"fsrm", detail::small_copy, made_by_amd()};
  if (ebx & 1u << 9) return {"erms", erms_from, made_by_amd()};
  return {};
}

const Way& way() noexcept {
  static const Way found = look();
  return found;
}

// True if AMD's rep movsb is 15 times slower: if the destination begins 1 to 63 bytes after the source, modulo 4096.
bool is_trap(const std::byte* into, const std::byte* from) noexcept {
  constexpr std::uintptr_t page = 4096, few = 64;
  const std::uintptr_t behind =
      (reinterpret_cast<std::uintptr_t>(into) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return behind > 0 && behind < few;
}

using Copy = void (*)(std::byte*, const std::byte*, std::size_t) noexcept;

void by_memcpy(std::byte* into, const std::byte* from, std::size_t bytes) noexcept { std::memcpy(into, from, bytes); }

__attribute__((target("avx512f"))) void by_vectors(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t step = 4 * line;
  std::size_t i = 0;
  for (; i + step <= bytes; i += step) {
    const __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + line);
    const __m512i c = _mm512_loadu_si512(from + i + 2 * line), d = _mm512_loadu_si512(from + i + 3 * line);
    _mm512_storeu_si512(into + i, a);
    _mm512_storeu_si512(into + i + line, b);
    _mm512_storeu_si512(into + i + 2 * line, c);
    _mm512_storeu_si512(into + i + 3 * line, d);
  }
  if (i < bytes) std::memcpy(into + i, from + i, bytes - i);
}

__attribute__((target("avx"))) void by_half_vectors(std::byte* into, const std::byte* from,
                                                    std::size_t bytes) noexcept {
  std::size_t i = 0;
  for (; i + line <= bytes; i += line) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + line / 2));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + i), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + i + line / 2), b);
  }
  if (i < bytes) std::memcpy(into + i, from + i, bytes - i);
}

// The copy with the widest loads and stores available.
Copy widest() noexcept {
  static const Copy found = __builtin_cpu_supports("avx512f") ? by_vectors
                            : __builtin_cpu_supports("avx")   ? by_half_vectors
                                                              : by_memcpy;
  return found;
}

// Bytes up to the next cache line.
std::size_t head_of(const std::byte* into) noexcept { return -reinterpret_cast<std::uintptr_t>(into) % line; }

}  // namespace

void detail::copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < way().from) {
    std::memcpy(into, from, bytes);
    return;
  }
  if (const std::size_t head = head_of(into); head > 0) {  // rep movsb reads no lines that it overwrites whole
    std::memcpy(into, from, head);
    into += head;
    from += head;
    bytes -= head;
  }
  if (way().amd && is_trap(into, from)) return widest()(into, from, bytes);
  asm volatile("rep movsb" : "+D"(into), "+S"(from), "+c"(bytes) : : "memory");
}

void detail::fetch_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  way().amd ? widest()(into, from, bytes) : copy_large(into, from, bytes);
}

void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes < detail::small_copy) return copy(into, from, bytes);
  copy_unordered(into, from, bytes);
  order_copies();
}

void copy_unordered(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) return;  // with no bytes the addresses may be null
  const std::size_t head = std::min(head_of(into), bytes);
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
}

void order_copies() noexcept { _mm_sfence(); }  // non-temporal stores are not ordered by a release store

std::string_view copy_way() noexcept { return way().name; }

#else

void detail::fetch_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(into, from, bytes);
}

void detail::copy_large(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  std::memcpy(into, from, bytes);
}

void copy_streaming(std::byte* into, const std::byte* from, std::size_t bytes) noexcept { copy(into, from, bytes); }

void copy_unordered(std::byte* into, const std::byte* from, std::size_t bytes) noexcept { copy(into, from, bytes); }

void order_copies() noexcept {}

std::string_view copy_way() noexcept { return "memcpy"; }

#endif

}  // namespace tutti
