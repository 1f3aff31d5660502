// Vectors of the width that the including reduce_<isa>.cpp has defined as `vector_bytes`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::detail {
namespace {

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

using Words = Vector<std::uint32_t>;  // also the type of a vector whose element type does not matter
using Floats = Vector<float>;

template <class To, class From>
[[gnu::always_inline]] inline To as(From from) {
  return __builtin_bit_cast(To, from);
}

// The compute type for a vector of 16-bit elements. The element type decides which of them are in `low`.
struct TwoFloats {
  Floats low, high;
};

// Applies f to values of the compute type; with TwoFloats, to the low and the high ones.
template <class F, class... V>
[[gnu::always_inline]] inline auto each(F f, V... values) {
  return f(values...);
}
template <class F, class... More>
[[gnu::always_inline]] inline TwoFloats each(F f, TwoFloats first, More... more) {
  return {f(first.low, more.low...), f(first.high, more.high...)};
}

// A partial vector, for processors without masked loads and stores.
struct CopiedParts {
  [[gnu::always_inline]] static Words load(const std::byte* from, std::size_t bytes) {
    Words raw{};
    __builtin_memcpy(&raw, from, bytes);
    return raw;
  }
  [[gnu::always_inline]] static void store(std::byte* into, Words raw, std::size_t bytes) {
    __builtin_memcpy(into, &raw, bytes);
  }
};

// Replaces a NaN check that is not needed.
struct NoNans {
  [[gnu::always_inline]] void look(Floats, Floats) {}
  [[gnu::always_inline]] bool found() const { return false; }
};

}  // namespace
}  // namespace tutti::detail
