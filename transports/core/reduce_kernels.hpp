// The reduction kernels, written once with vector types and compiled for each instruction set.
//
// Included by reduce_<isa>.cpp only, after `vector_bytes`, `Half`, `Streaming`, `Parts` and `BrainRounding` were
// defined there. Everything is in an unnamed namespace and calls nothing of the standard library: the linker must never
// keep an inline function compiled for AVX-512 as the program's only copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/core/reduce_elements.hpp"
#include "transports/core/reduce_table.hpp"

namespace tutti::detail {
namespace {

// ---- Loops.

[[gnu::always_inline]] inline Words load(const std::byte* from) {
  Words raw;
  __builtin_memcpy(&raw, from, sizeof(raw));
  return raw;
}

// Loads less than a vector. 4 and 8 bytes (one scalar) stay in registers; through memory, the load would stall on the
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
  return Parts::load(from, bytes);
}

[[gnu::always_inline]] inline void store_part(std::byte* into, Words raw, std::size_t bytes) {
  if (bytes == sizeof(std::uint32_t)) {
    const std::uint32_t word = raw[0];
    __builtin_memcpy(into, &word, sizeof(word));
  } else if (bytes == sizeof(std::uint64_t)) {
    const std::uint64_t word = as<Vector<std::uint64_t>>(raw)[0];
    __builtin_memcpy(into, &word, sizeof(word));
  } else {
    Parts::store(into, raw, bytes);
  }
}

template <class Type, std::size_t lanes, class Nans>
[[gnu::always_inline]] inline void settle(Words (&results)[lanes], const Nans& nans) {
  if constexpr (Type::settles) {
    if (__builtin_expect(nans.found(), false)) {
      for (Words& lane : results) lane = Type::settle(lane);
    }
  }
}

// Reduces `lanes` vectors of every source in source order; several lanes hide the latency of an operation. Values stay
// in the compute type and are rounded once at the end. `f` is used for all sources but the last, `last` for the last
// one.
template <std::size_t lanes, class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_vectors(const FoldMany& call, std::size_t i, bool stream, F f, Last last) {
  typename Type::Wide folded[lanes];
  const std::byte* from = call.sources[0] + i;
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < lanes; ++lane) folded[lane] = Type::unpack(load(from + lane * vector_bytes));
  for (std::size_t source = 1; source + 1 < call.count; ++source) {
    from = call.sources[source] + i;
#pragma GCC unroll 4
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      folded[lane] = each(f, folded[lane], Type::unpack(load(from + lane * vector_bytes)));
    }
  }
  typename Last::Nans nans;
  Words results[lanes];
  from = call.sources[call.count - 1] + i;
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    results[lane] = Type::pack(each(last, folded[lane], Type::unpack(load(from + lane * vector_bytes))), nans);
  }
  settle<Type>(results, nans);
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (stream) {
      Streaming::store(call.into + i + lane * vector_bytes, results[lane]);
    } else {
      __builtin_memcpy(call.into + i + lane * vector_bytes, &results[lane], vector_bytes);
    }
  }
}

template <class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_rest(const FoldMany& call, std::size_t i, std::size_t rest, F f, Last last) {
  const auto part = [&](std::size_t source) __attribute__((always_inline)) {
    return Type::unpack(load_part(call.sources[source] + i, rest));
  };
  typename Type::Wide folded = part(0);
  for (std::size_t source = 1; source + 1 < call.count; ++source) folded = each(f, folded, part(source));
  typename Last::Nans nans;
  Words results[] = {Type::pack(each(last, folded, part(call.count - 1)), nans)};
  settle<Type>(results, nans);
  store_part(call.into + i, results[0], rest);
}

template <class Type, class F, class Last>
[[gnu::always_inline]] inline void fold_loop(const FoldMany& call, F f, Last last) {
  constexpr std::size_t lanes = 4;
  std::size_t i = 0;
  bool aligned = false;
  if (call.bytes >= 4 * lanes * vector_bytes) {  // for less, aligning the stores does not pay
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(call.into) % vector_bytes;
    aligned = head % Type::width == 0;
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

template <class Operator>
struct Integers {
  using Nans = NoNans;
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return Operator::integers(a, b);
  }
};

template <class Operator>
struct Between {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return Operator::floats(a, b);
  }
};

template <class Type, class Operator>
struct Last {
  using Nans = typename Settling<Type, !Operator::one_nan>::Nans;
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return Settling<Type, !Operator::one_nan>::pass(Operator::floats(a, b));
  }
};

template <class T, class Operator>
struct LastDivided {
  using Nans = NoNans;
  Vector<T> by;
  [[gnu::always_inline]] Vector<T> operator()(Vector<T> a, Vector<T> b) const {
    return one_nan(Operator::floats(a, b) / by);
  }
};

template <class T, class Operator>
[[gnu::always_inline]] inline void fold_integers(const FoldMany& call) {
  fold_loop<Plain<T>>(call, Integers<Operator>{}, Integers<Operator>{});
}

// `T` is the compute type: float or double.
template <class Type, class T, class Operator>
[[gnu::always_inline]] inline void fold_floats(const FoldMany& call) {
  if (call.divisor == 1.0) {
    fold_loop<Type>(call, Between<Operator>{}, Last<Type, Operator>{});
  } else {
    const Vector<T> by = Vector<T>{} + static_cast<T>(call.divisor);
    fold_loop<Type>(call, Between<Operator>{}, LastDivided<T, Operator>{by});
  }
}

template <class Type, class T>
void scale_floats(std::byte* into, const std::byte* from, std::size_t bytes, double factor) {
  const Vector<T> by = Vector<T>{} + static_cast<T>(factor);
  const auto times = [by](auto a) __attribute__((always_inline)) { return one_nan(a * by); };
  NoNans none;
  const auto scaled = [&](Words raw) __attribute__((always_inline)) {
    return Type::pack(each(times, Type::unpack(raw)), none);
  };
  std::size_t i = 0;
  for (; i + vector_bytes <= bytes; i += vector_bytes) {
    const Words result = scaled(load(from + i));
    __builtin_memcpy(into + i, &result, vector_bytes);
  }
  if (const std::size_t rest = bytes - i; rest > 0) store_part(into + i, scaled(load_part(from + i, rest)), rest);
}

// ---- The table of kernels by dtype and op.

using Folding = void (*)(const FoldMany& call);

template <Folding fold>
void fold_many(const FoldMany& call) {
  fold(call);
}

// As fold_many(), for two sources. Code with a constant number of sources is faster, except in folds with a divisor.
template <Folding fold>
void fold_two(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes, double divisor) {
  const std::byte* const sources[] = {with, received};
  if (divisor != 1.0) return fold_many<fold>({into, sources, 2, bytes, divisor, Write::cached});
  fold({into, sources, 2, bytes, 1.0, Write::cached});
}

template <Folding fold>
constexpr void enter(FoldTable& table, DType dtype, Op op) {
  table.fold[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)] = fold_two<fold>;
  table.fold_many[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)] = fold_many<fold>;
}

template <class T, class Unsigned>
constexpr void add_integers(FoldTable& table, DType dtype) {
  enter<fold_integers<Unsigned, Sum>>(table, dtype, Op::sum);
  enter<fold_integers<Unsigned, Prod>>(table, dtype, Op::prod);
  enter<fold_integers<T, Min>>(table, dtype, Op::min);
  enter<fold_integers<T, Max>>(table, dtype, Op::max);
  enter<fold_integers<Unsigned, Band>>(table, dtype, Op::band);
  enter<fold_integers<Unsigned, Bor>>(table, dtype, Op::bor);
  enter<fold_integers<Unsigned, Bxor>>(table, dtype, Op::bxor);
}

template <class Type, class T>
constexpr void add_floats(FoldTable& table, DType dtype) {
  for (const Op op : {Op::sum, Op::avg, Op::premul_sum}) enter<fold_floats<Type, T, Sum>>(table, dtype, op);
  enter<fold_floats<Type, T, Prod>>(table, dtype, Op::prod);
  enter<fold_floats<Type, T, Min>>(table, dtype, Op::min);
  enter<fold_floats<Type, T, Max>>(table, dtype, Op::max);
  table.scale[static_cast<std::size_t>(dtype)] = scale_floats<Type, T>;
}

constexpr FoldTable make_table() {
  FoldTable table;
  add_integers<std::int8_t, std::uint8_t>(table, DType::i8);
  add_integers<std::uint8_t, std::uint8_t>(table, DType::u8);
  add_integers<std::int16_t, std::uint16_t>(table, DType::i16);
  add_integers<std::int32_t, std::uint32_t>(table, DType::i32);
  add_integers<std::int64_t, std::uint64_t>(table, DType::i64);
  add_integers<std::uint16_t, std::uint16_t>(table, DType::u16);
  add_integers<std::uint32_t, std::uint32_t>(table, DType::u32);
  add_integers<std::uint64_t, std::uint64_t>(table, DType::u64);
  add_floats<Half, float>(table, DType::f16);
  add_floats<BrainHalf, float>(table, DType::bf16);
  add_floats<Plain<float>, float>(table, DType::f32);
  add_floats<Plain<double>, double>(table, DType::f64);
  return table;
}

}  // namespace
}  // namespace tutti::detail
