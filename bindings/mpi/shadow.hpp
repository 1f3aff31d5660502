// TUTTI_MPI_CHECK for nonblocking calls: MPI makes the same call on copies of the data.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/types.hpp"
#include "tutti/collective.hpp"

namespace tutti::preload {

class Shadow {
 public:
  /// Starts MPI's call; must be called before tutti's call starts. Collective over the call's communicator; does not
  /// block. Throws Error{unsupported} if the data is larger than an int can count.
  Shadow(const Call& call, const Collective& collective, const Known& known, const std::optional<Folding>& folding);
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  /// True if MPI's call has completed. Local.
  bool done();
  /// Called after done() and the end of tutti's call: logs and aborts the job if the results differ.
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
