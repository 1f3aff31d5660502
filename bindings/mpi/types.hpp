// MPI's types and operators, converted to tutti's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"

namespace tutti::preload {

/// A reduction that tutti supports: each MPI element is `width` elements of `dtype`, reduced by `op`.
struct Folding {
  DType dtype = DType::u8;
  Op op = Op::sum;
  int width = 1;  ///< 2 for complex numbers
};

/// Reads MPI's predefined types, once. Call it after take_library().
void note_types(void* library);

/// The reduction for a type and operator; nullopt if MPI must make it: derived types, pairs, user-defined operators,
/// and combinations that MPI does not define. Equal on all ranks, because MPI requires equal types and operators.
std::optional<Folding> folding_of(MPI_Datatype type, MPI_Op op) noexcept;

/// False for MPI_DATATYPE_NULL and types that are not committed.
bool is_usable(MPI_Datatype type) noexcept;

/// True if the bytes of consecutive elements in memory equal the output of MPI_Pack().
bool is_contiguous(MPI_Datatype type);

/// size: the data bytes of an element. extent: the bytes from one element to the next. Any type but MPI_DATATYPE_NULL.
std::int64_t size_of_type(MPI_Datatype type);
std::int64_t extent_of_type(MPI_Datatype type);

}  // namespace tutti::preload
