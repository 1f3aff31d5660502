// TUTTI_MPI_CHECK for calls that return a request: MPI's twin of the call, on copies of what travels.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/types.hpp"
#include "transports/core/collective.hpp"

namespace tutti::preload {

class Shadow {
 public:
  /// Starts the twin, before tutti writes. Collective, as the call is; waits for nobody. Throws Error{unsupported}
  /// where there are more bytes than an int counts.
  Shadow(const Call& call, const Collective& collective, const Known& known, const std::optional<Folding>& folding);
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  /// Returns whether MPI's own call, the twin, has completed. Local.
  bool done();
  /// After done(), and tutti's call has ended: ends the job where the two differ.
  void compare();

 private:
  void start_reduction(const Call& call);
  void start_magnitudes(const Call& call);
  void start_move(const Call& call);

  const Function function_;
  const Collective& collective_;
  const Known& known_;
  const std::optional<Folding> folding_;
  std::vector<std::byte> in_, out_;
  std::vector<double> mine_, magnitudes_;
  std::vector<int> in_counts_, in_displs_, out_counts_, out_displs_;
  std::array<MPI_Request, 2> requests_;
};

}  // namespace tutti::preload
