// Building blocks of the reduction kernels: vectors, operators and element types.
//
// Included by reduce_<isa>.cpp only, as reduce_kernels.hpp explains.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/core/reduce_vectors.hpp"

namespace tutti::detail {
namespace {

// The unsigned integer with the size of a floating-point type.
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

// All NaNs are made one canonical NaN, to keep results equal between ranks: which of two NaN operands an addition
// returns depends on their order, which compilers may swap, and the sign of a new NaN depends on the processor.
template <class F>
[[gnu::always_inline]] inline F one_nan(F value) {
  using Bits = typename BitsOf<F>::type;
  return as<F>(value == value ? as<Bits>(value) : Bits{} + BitsOf<F>::quiet_nan);
}

// ---- Operators. Integers are passed as unsigned vectors, except to min and max. `one_nan` is true if a NaN that
// results from `floats` is canonical already.

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

// The minimum of -0 and +0 is -0: the OR of their bits keeps the sign. If either is a NaN, the result is a quiet NaN.
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

// ---- Element types: unpack() converts to the compute type, and pack() rounds to the element type. If `settles` is
// false, the caller makes NaNs canonical before pack(). If it is true, pack() reports NaNs in `nans`, and settle() then
// fixes the results. That is faster, because NaNs are rare and there are half as many packed vectors.

template <class T>
struct Plain {
  static constexpr std::size_t width = sizeof(T);
  static constexpr bool settles = false;
  using Nans = NoNans;
  using Wide = Vector<T>;
  [[gnu::always_inline]] static Wide unpack(Words raw) { return as<Wide>(raw); }
  [[gnu::always_inline]] static Words pack(Wide value, NoNans&) { return as<Words>(value); }
};

// Two bfloat16 in each 32-bit word: masking gives the upper one as a float, a shift the lower one. Needs no shuffles.
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
  // Rounding keeps a NaN a NaN, because the lower half of any NaN here, from an operand or the processor, is zero.
  [[gnu::always_inline]] static Words settle(Words raw) {
    using Halves = Vector<std::uint16_t>;
    const Halves halves = as<Halves>(raw);
    return as<Words>((halves & 0x7fff) > 0x7f80 ? Halves{} + 0x7fc0 : halves);
  }
};

// Prepares a value for pack(): makes a new NaN canonical, unless the type's settle() does so.
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
