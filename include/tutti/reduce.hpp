// Reductions: element types combined with reduction operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tutti/buffer.hpp"

namespace tutti {

/// Integers wrap on overflow. min and max propagate NaN. avg and premul_sum need floating point. premul_sum
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

/// True if `op` is defined for `dtype`: band, bor and bxor need integers; avg and premul_sum need floating point.
bool supports(Op op, DType dtype) noexcept;

/// How a result is written. `streaming` uses non-temporal stores, for results larger than the last-level cache that are
/// not read again soon. Stores that follow in program order, such as a flag, become visible after the result.
enum class Write : std::uint8_t { cached, streaming };

/// One reduction step: into = with (op) received, element by element. f16 and bf16 are computed in float and rounded
/// once per step. The result has the same bits on every processor and for either order of the operands: every NaN
/// becomes the positive quiet NaN, and min and max order -0 before +0.
///
/// A `divisor` other than 1 (avg: the number of ranks) divides the value before it is rounded; set it only for the last
/// step of an element.
struct Fold {
  DType dtype = DType::f32;
  Op op = Op::sum;  ///< avg and premul_sum reduce as sum
  double divisor = 1.0;

  /// `into` may be `with` or `received` (exactly); otherwise the three do not overlap. All
  /// hold `bytes` bytes, a multiple of the element size; alignment to the element is not required.
  void operator()(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes) const;

  /// into = ((sources[0] op sources[1]) op sources[2]) ... in one pass. The result has the same bits as that of single
  /// steps, except that f16 and bf16 stay in float and are rounded once at the end: the error of a sum of n is at most
  /// half a unit in the last place plus n - 1 roundings of float. The divisor is applied last. `into` may be exactly
  /// one of the sources; otherwise it overlaps none. A single source is copied. `streaming` is a hint, used if `into`
  /// is aligned to the element.
  void of(std::byte* into, std::span<const std::byte* const> sources, std::size_t bytes,
          Write write = Write::cached) const;

  std::size_t width() const noexcept { return size_of(dtype); }
};

/// into = from * factor in float or double, rounded once; floating-point dtypes only. `into` may be `from`.
void scale(DType dtype, std::byte* into, const std::byte* from, std::size_t bytes, double factor);

/// The instruction set that the kernels were dispatched to: "avx512", "avx2" or "baseline".
std::string_view fold_isa() noexcept;

}  // namespace tutti
