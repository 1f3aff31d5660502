// Decides whether tutti or MPI carries out a call. All ranks have to decide alike, or the program hangs. So only what
// MPI requires to be equal on all ranks is looked at: the function and the communicator; of a reduction the operator,
// the type and the count; and the bytes per rank of a call that has no list of counts.
#pragma once

#include <cstdint>
#include <optional>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/types.hpp"

namespace tutti::preload {

/// The same on all ranks.
struct Policy {
  std::int64_t min_bytes = 0;  ///< smaller calls stay with MPI
  bool check = false;          ///< MPI makes every call too, and the results are compared
};

struct Decision {
  bool ours = false;
  std::optional<Folding> folding;  ///< of a reduction that is ours
};

/// Without the communicator, which may still say no. Local.
Decision decide(const Call& call, const Policy& policy);

}  // namespace tutti::preload
