// The kernels behind Fold and scale(): one table of them per instruction set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "transports/core/reduce.hpp"

namespace tutti::detail {

using FoldKernel = void (*)(std::byte* into, const std::byte* with, const std::byte* received, std::size_t bytes,
                            double divisor);
/// What Fold::of() asks of a kernel: two sources at least.
struct FoldMany {
  std::byte* into;
  const std::byte* const* sources;
  std::size_t count;  ///< of sources
  std::size_t bytes;
  double divisor;
  Write write;
};
using FoldManyKernel = void (*)(const FoldMany& call);
using ScaleKernel = void (*)(std::byte* into, const std::byte* from, std::size_t bytes, double factor);

/// Null where dtype and op have no meaning together (see supports()). All tables compute the same bits.
struct FoldTable {
  FoldKernel fold[dtype_count][op_count] = {};
  FoldManyKernel fold_many[dtype_count][op_count] = {};
  ScaleKernel scale[dtype_count] = {};
};

/// Null where the library was built without the instruction set. Call them only on a processor that
/// has it: they live in files that are compiled for it.
const FoldTable* baseline_folds() noexcept;
const FoldTable* avx2_folds() noexcept;
const FoldTable* avx512_folds() noexcept;

struct FoldIsa {
  std::string_view name;
  const FoldTable* table;
};

/// What this processor can run, best first; "baseline" is always the last.
std::span<const FoldIsa> fold_isas() noexcept;

}  // namespace tutti::detail
