// Folds for AVX-512 (F, BW, DQ, VL); compiled with those switched on (see transports/CMakeLists.txt).
#include "transports/core/reduce_table.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

namespace tutti::detail {
namespace {
constexpr std::size_t vector_bytes = 64;
struct Half;

// Past the caches, to addresses that are multiples of vector_bytes; done() puts them before what follows.
struct Streaming {
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(into), __builtin_bit_cast(__m512i, raw));
  }
  [[gnu::always_inline]] static void done() { _mm_sfence(); }
};
}  // namespace
}  // namespace tutti::detail

#include "transports/core/reduce_kernels.hpp"

namespace tutti::detail {
namespace {

struct Half {
  [[gnu::always_inline]] static Floats low(Words raw) {
    return as<Floats>(_mm512_cvtph_ps(_mm512_castsi512_si256(as<__m512i>(raw))));
  }
  [[gnu::always_inline]] static Floats high(Words raw) {
    return as<Floats>(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(as<__m512i>(raw), 1)));
  }
  [[gnu::always_inline]] static __m256i narrow(Floats value) {
    return _mm512_cvtps_ph(as<__m512>(value), _MM_FROUND_TO_NEAREST_INT);
  }
  template <class F, class... Raw>
  [[gnu::always_inline]] static Words apply(F f, Raw... raw) {
    const __m512i lower = _mm512_zextsi256_si512(narrow(f(low(raw)...)));
    return as<Words>(_mm512_inserti64x4(lower, narrow(f(high(raw)...)), 1));
  }
};

constexpr FoldTable table = make_table();

}  // namespace

const FoldTable* avx512_folds() noexcept { return &table; }

}  // namespace tutti::detail

#else

const tutti::detail::FoldTable* tutti::detail::avx512_folds() noexcept { return nullptr; }

#endif
