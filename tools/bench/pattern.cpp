// Buffer contents for which the result of the collective is known.
#include "tools/bench/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti::bench {
namespace {

constexpr std::size_t period = 1009;

template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::i8: return f(std::int8_t{});
    case DType::u8: return f(std::uint8_t{});
    case DType::i16: return f(std::int16_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::i64: return f(std::int64_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::u32: return f(std::uint32_t{});
    case DType::u64: return f(std::uint64_t{});
    case DType::f16: return f(f16{});
    case DType::bf16: return f(bf16{});
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
  }
}

/// Returns a rank's value of element i. It is so small that sums over 64 ranks are exact in bf16.
std::int64_t value(const Case& what, int rank, std::size_t i, unsigned epoch) {
  const std::uint64_t mixed = (i * 2654435761u + static_cast<unsigned>(rank) * 40503u + epoch * 9973u) >> 3;
  if (!what.reduces()) return static_cast<std::int64_t>(mixed % 101);
  switch (what.op.op) {
    case Op::prod: return mixed % 8 == 0 ? 2 : 1;
    case Op::sum:
    case Op::avg:
    case Op::premul_sum: return static_cast<std::int64_t>(mixed % 4);
    default: return static_cast<std::int64_t>(mixed % 101);
  }
}

std::int64_t combine(Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Op::prod: return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::band: return a & b;
    case Op::bor: return a | b;
    case Op::bxor: return a ^ b;
    default: return a + b;
  }
}

void store(DType dtype, std::byte* at, std::int64_t whole, double divisor) {
  with_type(dtype, [&]<class T>(T) {
    T element;
    if constexpr (std::is_integral_v<T>) element = static_cast<T>(whole);
    if constexpr (std::is_floating_point_v<T>) element = static_cast<T>(static_cast<double>(whole) / divisor);
    if constexpr (std::is_class_v<T>) element = T(static_cast<float>(static_cast<double>(whole) / divisor));
    std::memcpy(at, &element, sizeof element);
  });
}

double load(DType dtype, const std::byte* at) {
  double number = 0;
  with_type(dtype, [&]<class T>(T element) {
    std::memcpy(&element, at, sizeof element);
    if constexpr (std::is_class_v<T>) number = static_cast<float>(element);
    if constexpr (!std::is_class_v<T>) number = static_cast<double>(element);
  });
  return number;
}

/// Returns the permitted relative error. Division by a number of ranks that is not a power of two rounds once or twice.
double tolerance(const Case& what) {
  const bool exact = !what.reduces() || what.op.op != Op::avg || (what.ranks & (what.ranks - 1)) == 0;
  if (exact) return 0;
  switch (what.dtype) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return 0x1p-22;
    default: return 0x1p-51;
  }
}

}  // namespace

Pattern::Pattern(const Case& what, int rank)
    : dtype_(what.dtype), rank_(rank), ranks_(static_cast<unsigned>(what.ranks)), tolerance_(tolerance(what)) {
  const std::size_t width = size_of(dtype_);
  const double divisor = what.op.op == Op::avg ? what.ranks : 1;
  const auto factor = static_cast<std::int64_t>(what.op.op == Op::premul_sum ? what.op.factor : 1);
  for (unsigned epoch = 0; epoch < epochs; ++epoch) {
    Table reduced(period * width);
    std::vector<std::int64_t> folded(period);
    for (int r = 0; r < what.ranks; ++r) {
      Table table(period * width);
      for (std::size_t i = 0; i < period; ++i) {
        const std::int64_t own = value(what, r, i, epoch);
        store(dtype_, &table[i * width], own, 1);
        folded[i] = r == 0 ? own * factor : combine(what.op.op, folded[i], own * factor);
      }
      values_.push_back(std::move(table));
    }
    for (std::size_t i = 0; i < period; ++i) store(dtype_, &reduced[i * width], folded[i], divisor);
    reduced_.push_back(std::move(reduced));
  }
}

void Pattern::tile(std::byte* into, std::size_t count, const Table& table, std::size_t phase) const {
  const std::size_t width = size_of(dtype_);
  for (std::size_t i = 0; i < count;) {
    const std::size_t at = (phase + i) % period;
    const std::size_t run = std::min(period - at, count - i);
    std::memcpy(into + i * width, &table[at * width], run * width);
    i += run;
  }
}

std::uint64_t Pattern::differ(const std::byte* from, std::size_t count, const Table& table, std::size_t phase) const {
  const std::size_t width = size_of(dtype_);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count;) {
    const std::size_t at = (phase + i) % period;
    const std::size_t run = std::min(period - at, count - i);
    if (std::memcmp(from + i * width, &table[at * width], run * width) != 0)
      for (std::size_t k = 0; k < run; ++k) wrong += !close(from + (i + k) * width, &table[(at + k) * width]);
    i += run;
  }
  return wrong;
}

bool Pattern::close(const std::byte* a, const std::byte* b) const {
  if (std::memcmp(a, b, size_of(dtype_)) == 0) return true;
  const double x = load(dtype_, a), y = load(dtype_, b);
  return x == y || std::abs(x - y) <= tolerance_ * std::abs(y);
}

void Pattern::fill(const Case& what, std::byte* in, std::byte* out, unsigned epoch) const {
  const Operands at = operands(what, rank_, in, out);
  const bool root_only = what.kind == Kind::broadcast || what.kind == Kind::scatter;
  if (what.kind == Kind::barrier || (root_only && rank_ != what.root)) return;
  auto* source = const_cast<std::byte*>(what.kind == Kind::broadcast ? at.out : at.in);
  tile(source, what.in_count(), values(rank_, epoch), 0);
}

std::uint64_t Pattern::wrong(const Case& what, const std::byte* in, const std::byte* out, unsigned epoch) const {
  const std::byte* result = operands(what, rank_, const_cast<std::byte*>(in), const_cast<std::byte*>(out)).out;
  const auto mine = static_cast<std::size_t>(rank_) * what.count;
  const bool at_root = rank_ == what.root;
  switch (what.kind) {
    case Kind::barrier: return 0;
    case Kind::allreduce: return differ(result, what.count, reduced_[epoch % epochs], 0);
    case Kind::reduce: return at_root ? differ(result, what.count, reduced_[epoch % epochs], 0) : 0;
    case Kind::reduce_scatter: return differ(result, what.count, reduced_[epoch % epochs], mine);
    case Kind::broadcast: return differ(result, what.count, values(what.root, epoch), 0);
    case Kind::scatter: return differ(result, what.count, values(what.root, epoch), mine);
    case Kind::send: return differ(result, what.count, values((rank_ + what.ranks - 1) % what.ranks, epoch), 0);
    default: break;
  }
  if (what.kind == Kind::gather && !at_root) return 0;
  std::uint64_t wrong = 0;
  const std::size_t phase = what.kind == Kind::alltoall ? mine : 0;
  for (int r = 0; r < what.ranks; ++r)
    wrong += differ(result + static_cast<std::size_t>(r) * what.count * size_of(what.dtype), what.count,
                    values(r, epoch), phase);
  return wrong;
}

Operands operands(const Case& what, int rank, std::byte* in, std::byte* out) noexcept {
  if (!what.in_place) return {in, out};
  const std::size_t block = static_cast<std::size_t>(rank) * what.count * size_of(what.dtype);
  switch (what.kind) {
    case Kind::allgather: return {out + block, out};
    case Kind::gather: return rank == what.root ? Operands{out + block, out} : Operands{in, out};
    case Kind::reduce_scatter: return {in, in + block};
    case Kind::scatter: return rank == what.root ? Operands{in, in + block} : Operands{in, out};
    default: return {out, out};
  }
}

}  // namespace tutti::bench
