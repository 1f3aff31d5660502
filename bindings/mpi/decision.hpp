// Decides whether tutti or MPI makes a call. All ranks must make the same decision, or the program hangs. The decision
// therefore uses only values that MPI requires to be equal on all ranks: the function, the communicator; for reductions
// the operator, type and count; and for calls without count arrays the bytes per rank.
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
  bool ours = false;               ///< true: tutti makes the call; false: MPI does
  std::optional<Folding> folding;  ///< set for a reduction that tutti can make
};

/// `known` is the Known of the call's communicator, or null. Local.
Decision decide(const Call& call, const Known* known, const Policy& policy);

}  // namespace tutti::preload
