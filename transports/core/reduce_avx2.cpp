// Folds for AVX2 and F16C; compiled with those switched on (see transports/CMakeLists.txt).
#include "transports/core/reduce_table.hpp"

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

namespace tutti::detail {
namespace {
constexpr std::size_t vector_bytes = 32;
struct Half;

// Past the caches, to addresses that are multiples of vector_bytes; done() puts them before what follows.
struct Streaming {
  template <class V>
  [[gnu::always_inline]] static void store(std::byte* into, V raw) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(into), __builtin_bit_cast(__m256i, raw));
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
    return as<Floats>(_mm256_cvtph_ps(_mm256_castsi256_si128(as<__m256i>(raw))));
  }
  [[gnu::always_inline]] static Floats high(Words raw) {
    return as<Floats>(_mm256_cvtph_ps(_mm256_extracti128_si256(as<__m256i>(raw), 1)));
  }
  [[gnu::always_inline]] static __m128i narrow(Floats value) {
    return _mm256_cvtps_ph(as<__m256>(value), _MM_FROUND_TO_NEAREST_INT);
  }
  template <class F, class... Raw>
  [[gnu::always_inline]] static Words apply(F f, Raw... raw) {
    return as<Words>(_mm256_set_m128i(narrow(f(high(raw)...)), narrow(f(low(raw)...))));
  }
};

constexpr FoldTable table = make_table();

}  // namespace

const FoldTable* avx2_folds() noexcept { return &table; }

}  // namespace tutti::detail

#else

const tutti::detail::FoldTable* tutti::detail::avx2_folds() noexcept { return nullptr; }

#endif
