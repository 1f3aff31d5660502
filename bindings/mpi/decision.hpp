// Whether tutti or MPI makes a call. All ranks of a call must decide alike, so this looks at nothing but what MPI makes
// equal on them: the function, the communicator, of reductions the operator, type and count, and how many bytes a call
// without lists has for each rank.
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
