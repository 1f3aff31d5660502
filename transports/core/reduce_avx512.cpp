// Reduction kernels for AVX-512 (F, BW, DQ, VL), compiled with these enabled (see transports/CMakeLists.txt).
#include "transports/core/reduce_table.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

namespace tutti::detail {
namespace {
constexpr std::size_t vector_bytes = 64;
}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_vectors.hpp"

namespace tutti::detail {
namespace {

// Non-temporal stores to addresses that are multiples of vector_bytes; done() orders them before later stores.
struct Streaming {
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(into), __builtin_bit_cast(__m512i, raw));
  }
  [[gnu::always_inline]] static void done() { _mm_sfence(); }
};

// A partial vector: `bytes` of its 64.
struct Parts {
  [[gnu::always_inline]] static __mmask64 first(std::size_t bytes) { return (__mmask64{1} << bytes) - 1; }
  [[gnu::always_inline]] static Words load(const std::byte* from, std::size_t bytes) {
    return as<Words>(_mm512_maskz_loadu_epi8(first(bytes), from));
  }
  [[gnu::always_inline]] static void store(std::byte* into, Words raw, std::size_t bytes) {
    _mm512_mask_storeu_epi8(into, first(bytes), as<__m512i>(raw));
  }
};

// Rounds two vectors to the nearest bfloat16, ties to even, and packs them into one. The result is the upper halves
// plus a carry: one if the lower half is above the midpoint, or at the midpoint with an odd upper half. 16-bit
// arithmetic on packed halves takes half the operations of rounding each float.
struct BrainRounding {
  static constexpr bool settles = true;
  class Nans {
   public:
    [[gnu::always_inline]] void look(Floats low, Floats high) {
      ordered_ = _mm512_mask_cmp_ps_mask(ordered_, as<__m512>(low), as<__m512>(high), _CMP_ORD_Q);
    }
    [[gnu::always_inline]] bool found() const { return ordered_ != 0xffff; }

   private:
    __mmask16 ordered_ = 0xffff;
  };
  [[gnu::always_inline]] static Words pack(Floats low, Floats high) {
    constexpr __mmask32 odd = 0xaaaaaaaa;
    const auto first = as<__m512i>(low), second = as<__m512i>(high);
    const __m512i upper = _mm512_mask_blend_epi16(odd, _mm512_srli_epi32(first, 16), second);
    const __m512i lower = _mm512_mask_blend_epi16(odd, first, _mm512_slli_epi32(second, 16));
    constexpr int first_or_both_others = 0xf8;
    const __m512i beyond = _mm512_ternarylogic_epi32(lower, upper, _mm512_set1_epi16(1), first_or_both_others);
    const __mmask32 carry = _mm512_cmpgt_epu16_mask(beyond, _mm512_set1_epi16(-0x8000));
    return as<Words>(_mm512_mask_sub_epi16(upper, carry, upper, _mm512_set1_epi16(-1)));
  }
};

struct Half {
  static constexpr std::size_t width = 2;
  static constexpr bool settles = false;
  using Nans = NoNans;
  using Wide = TwoFloats;
  [[gnu::always_inline]] static Wide unpack(Words raw) {
    return {as<Floats>(_mm512_cvtph_ps(_mm512_castsi512_si256(as<__m512i>(raw)))),
            as<Floats>(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(as<__m512i>(raw), 1)))};
  }
  [[gnu::always_inline]] static __m256i round(Floats value) {
    return _mm512_cvtps_ph(as<__m512>(value), _MM_FROUND_TO_NEAREST_INT);
  }
  [[gnu::always_inline]] static Words pack(Wide value, NoNans&) {
    return as<Words>(_mm512_inserti64x4(_mm512_zextsi256_si512(round(value.low)), round(value.high), 1));
  }
};

}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_kernels.hpp"

namespace tutti::detail {
namespace {

constexpr FoldTable table = make_table();

}  // namespace

const FoldTable* avx512_folds() noexcept { return &table; }

}  // namespace tutti::detail

#else

const tutti::detail::FoldTable* tutti::detail::avx512_folds() noexcept { return nullptr; }

#endif
