// Kernel tables behind Fold and scale(), one per instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tutti/reduce.hpp"

namespace tutti::detail {

using FoldKernel = void (*)(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes,
                            double divisor);
/// Arguments of a kernel for Fold::of(); at least two sources.
struct FoldMany {
  std::byte* into;
  const std::byte* const* sources;
  std::size_t count;  ///< number of sources
  std::size_t bytes;
  double divisor;
  Write write;
};
using FoldManyKernel = void (*)(const FoldMany& call);
using ScaleKernel = void (*)(std::byte* into, const std::byte* from, std::size_t bytes, double factor);

/// Kernels by dtype and op; null where the combination is undefined (see supports()). All tables compute the same bits.
struct FoldTable {
  FoldKernel fold[dtype_count][op_count] = {};
  FoldManyKernel fold_many[dtype_count][op_count] = {};
  ScaleKernel scale[dtype_count] = {};
};

/// The table of an instruction set; null if the library was built without it. Its kernels may run only on a processor
/// that has the instruction set.
const FoldTable* baseline_folds() noexcept;
const FoldTable* avx2_folds() noexcept;
const FoldTable* avx512_folds() noexcept;

struct FoldIsa {
  std::string_view name;
  const FoldTable* table;
};

/// The instruction sets that this processor supports, best first; "baseline" is always the last.
std::span<const FoldIsa> fold_isas() noexcept;

}  // namespace tutti::detail
