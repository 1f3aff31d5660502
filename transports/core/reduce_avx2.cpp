// Reduction kernels for AVX2 and F16C, compiled with these enabled (see transports/CMakeLists.txt).
#include "transports/core/reduce_table.hpp"

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

namespace tutti::detail {
namespace {
constexpr std::size_t vector_bytes = 32;
}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_vectors.hpp"

namespace tutti::detail {
namespace {

// Non-temporal stores to addresses that are multiples of vector_bytes; done() orders them before later stores.
struct Streaming {
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(into), __builtin_bit_cast(__m256i, raw));
  }
  [[gnu::always_inline]] static void done() { _mm_sfence(); }
};

using Parts = CopiedParts;

// Rounds two vectors to the nearest bfloat16, ties to even, and packs them into one. The result is the upper halves
// plus a carry: one if the lower half is above the midpoint, or at the midpoint with an odd upper half. 16-bit
// arithmetic on packed halves takes half the operations of rounding each float.
struct BrainRounding {
  static constexpr bool settles = true;
  class Nans {
   public:
    [[gnu::always_inline]] void look(Floats low, Floats high) {
      unordered_ = _mm256_or_ps(unordered_, _mm256_cmp_ps(as<__m256>(low), as<__m256>(high), _CMP_UNORD_Q));
    }
    [[gnu::always_inline]] bool found() const { return _mm256_movemask_ps(unordered_) != 0; }

   private:
    __m256 unordered_ = _mm256_setzero_ps();
  };
  [[gnu::always_inline]] static Words pack(Floats low, Floats high) {
    constexpr int odd = 0xaa;
    const auto first = as<__m256i>(low), second = as<__m256i>(high);
    const __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, odd);
    const __m256i lower = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), odd);
    // AVX2 has only signed comparisons, so the midpoint is shifted to zero.
    const __m256i middle = _mm256_xor_si256(lower, _mm256_set1_epi16(-0x8000));
    const __m256i beyond = _mm256_or_si256(middle, _mm256_and_si256(upper, _mm256_set1_epi16(1)));
    return as<Words>(_mm256_sub_epi16(upper, _mm256_cmpgt_epi16(beyond, _mm256_setzero_si256())));
  }
};

struct Half {
  static constexpr std::size_t width = 2;
  static constexpr bool settles = false;
  using Nans = NoNans;
  using Wide = TwoFloats;
  [[gnu::always_inline]] static Wide unpack(Words raw) {
    return {as<Floats>(_mm256_cvtph_ps(_mm256_castsi256_si128(as<__m256i>(raw)))),
            as<Floats>(_mm256_cvtph_ps(_mm256_extracti128_si256(as<__m256i>(raw), 1)))};
  }
  [[gnu::always_inline]] static __m128i round(Floats value) {
    return _mm256_cvtps_ph(as<__m256>(value), _MM_FROUND_TO_NEAREST_INT);
  }
  [[gnu::always_inline]] static Words pack(Wide value, NoNans&) {
    return as<Words>(_mm256_set_m128i(round(value.high), round(value.low)));
  }
};

}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_kernels.hpp"

namespace tutti::detail {
namespace {

constexpr FoldTable table = make_table();

}  // namespace

const FoldTable* avx2_folds() noexcept { return &table; }

}  // namespace tutti::detail

#else

const tutti::detail::FoldTable* tutti::detail::avx2_folds() noexcept { return nullptr; }

#endif
