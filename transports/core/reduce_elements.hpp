// What folds are made of: vectors, operators and element types.
//
// Included by reduce_<isa>.cpp only, as reduce_kernels.hpp says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/core/reduce_vectors.hpp"

namespace tutti::detail {
namespace {

// Which integer has the size of a floating-point type.
template <class T>
struct BitsOf;
template <>
struct BitsOf<Floats> {
  using type = Vector<std::uint32_t>;
  static constexpr std::uint32_t quiet_nan = 0x7fc00000u;
};
template <>
struct BitsOf<Vector<double>> {
  using type = Vector<std::uint64_t>;
  static constexpr std::uint64_t quiet_nan = 0x7ff8000000000000u;
};

// Which of two NaNs an addition passes on depends on the order of its operands, which compilers swap at
// will, and the sign of a new one depends on the processor. One NaN for all cases keeps results
// equal between ranks.
template <class F>
[[gnu::always_inline]] inline F one_nan(F value) {
  using Bits = typename BitsOf<F>::type;
  return as<F>(value == value ? as<Bits>(value) : Bits{} + BitsOf<F>::quiet_nan);
}

// ---- Operators. Integers come as unsigned vectors, but to min and max. `one_nan` says whether a NaN that comes out of
// `floats` is the one already.

struct Sum {
  static constexpr bool one_nan = false;
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a + b;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    return a + b;
  }
};

struct Prod {
  static constexpr bool one_nan = false;
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a * b;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    return a * b;
  }
};

// -0 is less than +0. Equal values differ at most in the sign of a zero, which the bits settle.
struct Min {
  static constexpr bool one_nan = true;
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a < b ? a : b;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    using Bits = typename BitsOf<F>::type;
    const Bits x = as<Bits>(a), y = as<Bits>(b);
    const Bits equal_or_nan = a == b ? x | y : Bits{} + BitsOf<F>::quiet_nan;
    return as<F>(a < b ? x : (b < a ? y : equal_or_nan));
  }
};

struct Max {
  static constexpr bool one_nan = true;
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a < b ? b : a;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    using Bits = typename BitsOf<F>::type;
    const Bits x = as<Bits>(a), y = as<Bits>(b);
    const Bits equal_or_nan = a == b ? x & y : Bits{} + BitsOf<F>::quiet_nan;
    return as<F>(a < b ? y : (b < a ? x : equal_or_nan));
  }
};

struct Band {
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a & b;
  }
};
struct Bor {
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a | b;
  }
};
struct Bxor {
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a ^ b;
  }
};

// ---- Element types: unpack() gives what is computed in, and pack() rounds to the type. Where `settles` is false, who
// computes sees to it that all NaNs are one. Where it is true, pack() tells `nans` what it rounds, and where that found
// one, settle() mends the results. NaNs are rare, and packed there are half as many vectors to mend.

template <class T>
struct Plain {
  static constexpr std::size_t width = sizeof(T);
  static constexpr bool settles = false;
  using Nans = NoNans;
  using Wide = Vector<T>;
  [[gnu::always_inline]] static Wide unpack(Words raw) { return as<Wide>(raw); }
  [[gnu::always_inline]] static Words pack(Wide value, NoNans&) { return as<Words>(value); }
};

// Two bfloat16 in each 32-bit word: the one is the word's upper half and a float as it stands, the other is
// a shift away. No shuffles.
struct BrainHalf {
  static constexpr std::size_t width = 2;
  static constexpr bool settles = BrainRounding::settles;
  using Nans = BrainRounding::Nans;
  using Wide = TwoFloats;
  [[gnu::always_inline]] static Wide unpack(Words raw) {
    return {as<Floats>(raw << 16), as<Floats>(raw & 0xffff0000u)};
  }
  template <class N>
  [[gnu::always_inline]] static Words pack(Wide value, N& nans) {
    nans.look(value.low, value.high);
    return BrainRounding::pack(value.low, value.high);
  }
  // Rounding leaves a NaN one: the lower half of any that comes here, from an operand or from the processor, is zero.
  [[gnu::always_inline]] static Words settle(Words raw) {
    using Halves = Vector<std::uint16_t>;
    const Halves halves = as<Halves>(raw);
    return as<Words>((halves & 0x7fff) > 0x7f80 ? Halves{} + 0x7fc0 : halves);
  }
};

// What a folded value goes through before pack() rounds it: a new NaN becomes the one here, unless the type settles it.
template <class Type, bool new_nans>
struct Settling {
  using Nans = NoNans;
  template <class F>
  [[gnu::always_inline]] static F pass(F value) {
    return value;
  }
};
template <class Type>
struct Settling<Type, true> {
  using Nans = typename Type::Nans;
  template <class F>
  [[gnu::always_inline]] static F pass(F value) {
    if constexpr (Type::settles) {
      return value;
    } else {
      return one_nan(value);
    }
  }
};

}  // namespace
}  // namespace tutti::detail
