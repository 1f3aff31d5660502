// The folds, written once with vector types and compiled for each instruction set.
//
// Included by reduce_<isa>.cpp only, after `vector_bytes` and `Streaming` were defined there and `Half` declared.
// Everything is in an unnamed namespace and nothing of the standard library is called: an inline
// function compiled here for AVX-512 must never be the copy that the linker keeps for all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/core/reduce_table.hpp"

namespace tutti::detail {
namespace {

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

using Words = Vector<std::uint32_t>;  // also how a vector travels when its element type does not matter
using Floats = Vector<float>;

template <class To, class From>
[[gnu::always_inline]] inline To as(From from) {
  return __builtin_bit_cast(To, from);
}

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

// ---- Operators. Integers come as unsigned vectors, but to min and max. `between` is `floats` where another fold
// follows: any NaN will do, for it stays one until the last fold.

struct Sum {
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a + b;
  }
  template <class F>
  [[gnu::always_inline]] static F between(F a, F b) {
    return a + b;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    return one_nan(a + b);
  }
};

struct Prod {
  template <class V>
  [[gnu::always_inline]] static V integers(V a, V b) {
    return a * b;
  }
  template <class F>
  [[gnu::always_inline]] static F between(F a, F b) {
    return a * b;
  }
  template <class F>
  [[gnu::always_inline]] static F floats(F a, F b) {
    return one_nan(a * b);
  }
};

// -0 is less than +0. Equal values differ at most in the sign of a zero, which the bits settle.
struct Min {
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
  template <class F>
  [[gnu::always_inline]] static F between(F a, F b) {
    return floats(a, b);
  }
};

struct Max {
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
  template <class F>
  [[gnu::always_inline]] static F between(F a, F b) {
    return floats(a, b);
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

// ---- Element types: apply(f, a, b...) computes f on the elements of raw vectors.

template <class T>
struct Plain {
  template <class F, class... Raw>
  [[gnu::always_inline]] static Words apply(F f, Raw... raw) {
    return as<Words>(f(as<Vector<T>>(raw)...));
  }
};

// Two bfloat16 in each 32-bit word: the one is the word's upper half and a float as it stands, the other is
// a shift away. No shuffles.
struct BrainHalf {
  [[gnu::always_inline]] static Words round(Floats value) {
    const Words word = as<Words>(value);  // a NaN is the quiet one here, which rounding leaves alone
    return word + 0x7fffu + ((word >> 16) & 1u);
  }
  template <class F, class... Raw>
  [[gnu::always_inline]] static Words apply(F f, Raw... raw) {
    const Words low = round(f(as<Floats>(raw << 16)...));
    const Words high = round(f(as<Floats>(raw & 0xffff0000u)...));
    return (low >> 16) | (high & 0xffff0000u);
  }
};

// ---- Loops.

[[gnu::always_inline]] inline Words load(const std::byte* from) {
  Words raw;
  __builtin_memcpy(&raw, from, sizeof(raw));
  return raw;
}

// Less than a vector. 4 and 8 bytes, a scalar's, stay in registers: through memory they would wait for the
// store that padded them.
[[gnu::always_inline]] inline Words load_part(const std::byte* from, std::size_t bytes) {
  if (bytes == sizeof(std::uint32_t)) {
    std::uint32_t word;
    __builtin_memcpy(&word, from, sizeof(word));
    return Words{word};
  }
  if (bytes == sizeof(std::uint64_t)) {
    std::uint64_t word;
    __builtin_memcpy(&word, from, sizeof(word));
    return as<Words>(Vector<std::uint64_t>{word});
  }
  Words raw{};
  __builtin_memcpy(&raw, from, bytes);
  return raw;
}

[[gnu::always_inline]] inline void store_part(std::byte* into, Words raw, std::size_t bytes) {
  if (bytes == sizeof(std::uint32_t)) {
    const std::uint32_t word = raw[0];
    __builtin_memcpy(into, &word, sizeof(word));
  } else if (bytes == sizeof(std::uint64_t)) {
    const std::uint64_t word = as<Vector<std::uint64_t>>(raw)[0];
    __builtin_memcpy(into, &word, sizeof(word));
  } else {
    __builtin_memcpy(into, &raw, bytes);
  }
}

template <class Type, class F>
[[gnu::always_inline]] inline void fold_loop(std::byte* into, const std::byte* with, const std::byte* received,
                                             std::size_t bytes, F f) {
  std::size_t i = 0;
  for (; i + vector_bytes <= bytes; i += vector_bytes) {
    const Words result = Type::apply(f, load(with + i), load(received + i));
    __builtin_memcpy(into + i, &result, vector_bytes);
  }
  if (const std::size_t rest = bytes - i; rest > 0) {
    const Words result = Type::apply(f, load_part(with + i, rest), load_part(received + i, rest));
    store_part(into + i, result, rest);
  }
}

template <class T, class Operator>
void fold_integers(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes, double) {
  fold_loop<Plain<T>>(
      into, with, received, bytes,
      [](auto a, auto b) __attribute__((always_inline)) { return Operator::integers(a, b); });
}

// `T` is what is computed in: float or double.
template <class Type, class T, class Operator>
void fold_floats(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes, double divisor) {
  if (divisor == 1.0) {
    fold_loop<Type>(
        into, with, received, bytes,
        [](auto a, auto b) __attribute__((always_inline)) { return Operator::floats(a, b); });
  } else {
    const Vector<T> by = Vector<T>{} + static_cast<T>(divisor);
    fold_loop<Type>(
        into, with, received,
        bytes, [by](auto a, auto b) __attribute__((always_inline)) { return one_nan(Operator::floats(a, b) / by); });
  }
}

// `lanes` vectors of every source, folded in the sources' order: enough of them to hide an operation's latency.
template <std::size_t lanes, class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_vectors(const FoldMany& call, std::size_t i, bool stream, F f, Last last) {
  Words folded[lanes];
  const std::byte* from = call.sources[0] + i;
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < lanes; ++lane) folded[lane] = load(from + lane * vector_bytes);
  for (std::size_t source = 1; source + 1 < call.count; ++source) {
    from = call.sources[source] + i;
#pragma GCC unroll 4
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      folded[lane] = Type::apply(f, folded[lane], load(from + lane * vector_bytes));
    }
  }
  from = call.sources[call.count - 1] + i;
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const Words result = Type::apply(last, folded[lane], load(from + lane * vector_bytes));
    if (stream) {
      Streaming::store(call.into + i + lane * vector_bytes, result);
    } else {
      __builtin_memcpy(call.into + i + lane * vector_bytes, &result, vector_bytes);
    }
  }
}

template <class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_rest(const FoldMany& call, std::size_t i, std::size_t rest, F f, Last last) {
  Words folded = load_part(call.sources[0] + i, rest);
  for (std::size_t source = 1; source + 1 < call.count; ++source) {
    folded = Type::apply(f, folded, load_part(call.sources[source] + i, rest));
  }
  folded = Type::apply(last, folded, load_part(call.sources[call.count - 1] + i, rest));
  store_part(call.into + i, folded, rest);
}

template <class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_many_loop(const FoldMany& call, F f, Last last) {
  constexpr std::size_t lanes = 4;
  std::size_t i = 0;
  bool aligned = false;
  if (call.bytes >= 4 * lanes * vector_bytes) {  // else aligning the stores does not pay
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(call.into) % vector_bytes;
    aligned = head % call.width == 0;
    if (aligned && head > 0) {
      fold_rest<Type>(call, 0, head, f, last);
      i = head;
    }
  }
  const bool stream = aligned && call.write == Write::streaming;
  for (; i + lanes * vector_bytes <= call.bytes; i += lanes * vector_bytes) {
    fold_vectors<lanes, Type>(call, i, stream, f, last);
  }
  for (; i + vector_bytes <= call.bytes; i += vector_bytes) fold_vectors<1, Type>(call, i, false, f, last);
  if (const std::size_t rest = call.bytes - i; rest > 0) fold_rest<Type>(call, i, rest, f, last);
  if (stream) Streaming::done();
}

template <class T, class Operator>
void fold_many_integers(const FoldMany& call) {
  const auto f = [](auto a, auto b) __attribute__((always_inline)) { return Operator::integers(a, b); };
  fold_many_loop<Plain<T>>(call, f, f);
}

template <class Type, class T, class Operator>
void fold_many_floats(const FoldMany& call) {
  const auto between = [](auto a, auto b) __attribute__((always_inline)) { return Operator::between(a, b); };
  if (call.divisor == 1.0) {
    fold_many_loop<Type>(
        call, between, [](auto a, auto b) __attribute__((always_inline)) { return Operator::floats(a, b); });
  } else {
    const Vector<T> by = Vector<T>{} + static_cast<T>(call.divisor);
    fold_many_loop<Type>(
        call,
        between, [by](auto a, auto b) __attribute__((always_inline)) { return one_nan(Operator::floats(a, b) / by); });
  }
}

template <class Type, class T>
void scale_floats(std::byte* into, const std::byte* from, std::size_t bytes, double factor) {
  const Vector<T> by = Vector<T>{} + static_cast<T>(factor);
  const auto times = [by](auto a) __attribute__((always_inline)) { return one_nan(a * by); };
  std::size_t i = 0;
  for (; i + vector_bytes <= bytes; i += vector_bytes) {
    const Words result = Type::apply(times, load(from + i));
    __builtin_memcpy(into + i, &result, vector_bytes);
  }
  if (const std::size_t rest = bytes - i; rest > 0) {
    const Words result = Type::apply(times, load_part(from + i, rest));
    store_part(into + i, result, rest);
  }
}

// ---- The table: the one place where dtypes meet ops.

constexpr void enter(FoldTable& table, DType dtype, Op op, FoldKernel fold, FoldManyKernel many) {
  table.fold[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)] = fold;
  table.fold_many[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)] = many;
}

template <class T, class Operator>
constexpr void add_integer(FoldTable& table, DType dtype, Op op) {
  enter(table, dtype, op, fold_integers<T, Operator>, fold_many_integers<T, Operator>);
}

template <class T, class Unsigned>
constexpr void add_integers(FoldTable& table, DType dtype) {
  add_integer<Unsigned, Sum>(table, dtype, Op::sum);
  add_integer<Unsigned, Prod>(table, dtype, Op::prod);
  add_integer<T, Min>(table, dtype, Op::min);
  add_integer<T, Max>(table, dtype, Op::max);
  add_integer<Unsigned, Band>(table, dtype, Op::band);
  add_integer<Unsigned, Bor>(table, dtype, Op::bor);
  add_integer<Unsigned, Bxor>(table, dtype, Op::bxor);
}

template <class Type, class T, class Operator>
constexpr void add_float(FoldTable& table, DType dtype, Op op) {
  enter(table, dtype, op, fold_floats<Type, T, Operator>, fold_many_floats<Type, T, Operator>);
}

template <class Type, class T>
constexpr void add_floats(FoldTable& table, DType dtype) {
  for (const Op op : {Op::sum, Op::avg, Op::premul_sum}) add_float<Type, T, Sum>(table, dtype, op);
  add_float<Type, T, Prod>(table, dtype, Op::prod);
  add_float<Type, T, Min>(table, dtype, Op::min);
  add_float<Type, T, Max>(table, dtype, Op::max);
  table.scale[static_cast<std::size_t>(dtype)] = scale_floats<Type, T>;
}

constexpr FoldTable make_table() {
  FoldTable table;
  add_integers<std::int8_t, std::uint8_t>(table, DType::i8);
  add_integers<std::uint8_t, std::uint8_t>(table, DType::u8);
  add_integers<std::int16_t, std::uint16_t>(table, DType::i16);
  add_integers<std::int32_t, std::uint32_t>(table, DType::i32);
  add_integers<std::int64_t, std::uint64_t>(table, DType::i64);
  add_floats<Half, float>(table, DType::f16);
  add_floats<BrainHalf, float>(table, DType::bf16);
  add_floats<Plain<float>, float>(table, DType::f32);
  add_floats<Plain<double>, double>(table, DType::f64);
  return table;
}

}  // namespace
}  // namespace tutti::detail
