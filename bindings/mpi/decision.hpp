// Decides whether tutti or MPI makes a call. All ranks must decide alike, or the program hangs. So the decision uses
// only values that MPI requires to be equal on all ranks: the function, the communicator; for reductions the operator,
// type and count; and the bytes per rank of calls without count arrays.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/types.hpp"

namespace tutti::preload {

struct Known;

/// The settings; the same on all ranks.
struct Policy {
  std::int64_t min_bytes = 0;  ///< smaller calls are made by MPI
  bool check = false;          ///< MPI makes every call too, and the results are compared
};

struct Decision {
  bool ours = false;
  std::optional<Folding> folding;  ///< of a reduction that tutti can make
};

/// `known` is that of the call's communicator, or null. Local.
Decision decide(const Call& call, const Known* known, const Policy& policy);

}  // namespace tutti::preload
