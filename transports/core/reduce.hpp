// Folding: the one place where element types meet reduction operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "transports/core/buffer.hpp"

namespace tutti {

/// Integers wrap. min and max propagate NaN. avg is for floating point only. premul_sum
/// multiplies every rank's contribution by that rank's factor before summing.
enum class Op : std::uint8_t { sum, avg, prod, min, max, band, bor, bxor, premul_sum };
inline constexpr int op_count = 9;

/// A reduction operator with its factor: `tutti::sum`, `tutti::avg`, `tutti::premul_sum(0.5)`.
struct Reduction {
  Op op = Op::sum;
  double factor = 1.0;  ///< premul_sum only; may differ by rank
};

inline constexpr Reduction sum{Op::sum}, avg{Op::avg}, prod{Op::prod}, min{Op::min}, max{Op::max};
inline constexpr Reduction band{Op::band}, bor{Op::bor}, bxor{Op::bxor};
constexpr Reduction premul_sum(double factor) noexcept { return {Op::premul_sum, factor}; }

std::string_view name(Op op) noexcept;
std::optional<Op> parse_op(std::string_view text) noexcept;  ///< name()'s inverse

/// Whether the pair has a meaning: band/bor/bxor want integers; avg and premul_sum want floating point.
bool supports(Op op, DType dtype) noexcept;

/// How a result is written: `streaming` goes past the caches, for what is larger than the last of them
/// and not read again soon. What follows in program order, such as a flag, is seen after it.
enum class Write : std::uint8_t { cached, streaming };

/// One bound fold: into = with (op) received, element by element. f16 and bf16 are folded in
/// float and rounded once per fold. The result is the same bits on every processor and in
/// either order of the operands: a NaN is always the positive quiet one, and min and max
/// order -0 before +0.
///
/// A `divisor` other than 1 (avg: the number of ranks) divides the folded value before it
/// is rounded, and belongs to the last fold of an element only.
struct Fold {
  DType dtype = DType::f32;
  Op op = Op::sum;  ///< avg and premul_sum fold as sum
  double divisor = 1.0;

  /// `into` may be `with` or `received` (exactly); otherwise the three do not overlap. All
  /// hold `bytes` bytes, a multiple of the element size; alignment to the element is not required.
  void operator()(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes) const;

  /// into = ((sources[0] op sources[1]) op sources[2]) ... in one pass, bit for bit what folding one after
  /// the other gives, but that f16 and bf16 stay in float until all are folded and are rounded once: the sum of n
  /// errs by at most half a unit in its last place, and by n - 1 roundings of float. The divisor is applied last.
  /// `into` may be one of the sources (exactly); otherwise it overlaps none. One source is copied. `streaming` is a
  /// wish: it is granted where `into` is aligned to the element.
  void of(std::byte* into, std::span<const std::byte* const> sources, std::size_t bytes,
          Write write = Write::cached) const;

  std::size_t width() const noexcept { return size_of(dtype); }
};

/// into = from * factor in float or double, rounded once; floating-point dtypes only. In place is allowed.
void scale(DType dtype, std::byte* into, const std::byte* from, std::size_t bytes, double factor);

/// The instruction set that the folds were dispatched to: "avx512", "avx2" or "baseline".
std::string_view fold_isa() noexcept;

}  // namespace tutti
