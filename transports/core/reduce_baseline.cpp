// Reduction kernels for any processor: 16-byte vectors (SSE2, NEON), binary16 by integer arithmetic.
#include <cstddef>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti::detail {
namespace {
constexpr std::size_t vector_bytes = 16;
}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_vectors.hpp"

namespace tutti::detail {
namespace {

// Non-temporal stores to addresses that are multiples of vector_bytes; done() orders them before later stores.
struct Streaming {
#if defined(__SSE2__)
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(into), __builtin_bit_cast(__m128i, raw));
  }
  [[gnu::always_inline]] static void done() { _mm_sfence(); }
#else
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    __builtin_memcpy(into, &raw, vector_bytes);
  }
  [[gnu::always_inline]] static void done() {}
#endif
};

using Parts = CopiedParts;

// Rounds two vectors to the nearest bfloat16, ties to even, and packs them into one. Input NaNs are canonical, and
// rounding keeps them.
struct BrainRounding {
  static constexpr bool settles = false;
  using Nans = NoNans;
  [[gnu::always_inline]] static Words round(Floats value) {
    const Words word = as<Words>(value);
    return word + 0x7fffu + ((word >> 16) & 1u);
  }
  [[gnu::always_inline]] static Words pack(Floats low, Floats high) {
    return (round(low) >> 16) | (round(high) & 0xffff0000u);
  }
};

using Signed = Vector<std::int32_t>;  // comparing magnitudes as signed integers is one instruction

// Two binary16 in each 32-bit word.
struct Half {
  static constexpr std::size_t width = 2;
  static constexpr bool settles = false;
  using Nans = NoNans;
  using Wide = TwoFloats;
  [[gnu::always_inline]] static Floats widen(Words half) {
    const Words shifted = (half & 0x7fffu) << 13;
    const Words normal = shifted + 0x38000000u;  // the exponent's bias goes from 15 to 127
    // A subnormal becomes the fraction of a normal number, whose leading one is then subtracted exactly.
    const Floats subnormal = as<Floats>(shifted + 0x38800000u) - 0x1p-14f;
    const Signed order = as<Signed>(shifted);
    const Words finite = order < 0x00800000 ? as<Words>(subnormal) : normal;
    const Words magnitude = order >= 0x0f800000 ? normal + 0x38000000u : finite;
    return as<Floats>(magnitude | (half & 0x8000u) << 16);
  }

  // Rounds to nearest even, as f16(float) does. Input NaNs are canonical.
  [[gnu::always_inline]] static Words narrow(Floats value) {
    const Words word = as<Words>(value);
    const Words magnitude = word & 0x7fffffffu;
    const Signed order = as<Signed>(magnitude);
    const Words normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
    const Words subnormal = as<Words>(as<Floats>(magnitude) + 0.5f) - 0x3f000000u;  // the addition shifts and rounds
    const Words finite = order < 0x38800000 ? subnormal : normal;
    const Words large = order > 0x7f800000 ? Words{} + 0x7e00u : Words{} + 0x7c00u;
    const Words half = order >= 0x47800000 ? large : finite;
    return half | ((word >> 16) & 0x8000u);
  }

  [[gnu::always_inline]] static Wide unpack(Words raw) { return {widen(raw & 0xffffu), widen(raw >> 16)}; }
  [[gnu::always_inline]] static Words pack(Wide value, NoNans&) { return narrow(value.low) | narrow(value.high) << 16; }
};

}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_kernels.hpp"

namespace tutti::detail {
namespace {

constexpr FoldTable table = make_table();

}  // namespace

const FoldTable* baseline_folds() noexcept { return &table; }

}  // namespace tutti::detail
