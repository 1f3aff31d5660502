// Types and operators of MPI as tutti has them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "transports/core/dtype.hpp"
#include "transports/core/reduce.hpp"

namespace tutti::preload {

/// A reduction that tutti can do: `width` elements of `dtype` for each of MPI's, under `op`.
struct Folding {
  DType dtype = DType::u8;
  Op op = Op::sum;
  int width = 1;  ///< 2 for a complex number
};

/// Looks at MPI's predefined types once. After take_library().
void note_types(void* library);

/// Nothing where MPI has to do it: derived types, pairs, user's operators, and what MPI itself does not define. The
/// same on all ranks, as type and operator are.
std::optional<Folding> folding_of(MPI_Datatype type, MPI_Op op) noexcept;

/// Whether elements of it, one after the other, are as bytes what MPI_Pack() makes of them.
bool is_contiguous(MPI_Datatype type);

/// Bytes of data in an element, and from one element to the next.
std::int64_t size_of_type(MPI_Datatype type);
std::int64_t extent_of_type(MPI_Datatype type);

}  // namespace tutti::preload
