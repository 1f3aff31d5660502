// The agreement of the members of an MPI communicator before they create it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transports/mpi/session.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::mpi {

struct Meeting {
  std::int64_t base = no_native;  ///< the MPI communicator whose ranks are the job's
  int world_size = 1, world_rank = 0;
  std::vector<int> members;  ///< world ranks, including this one
  std::uint64_t name = 0;    ///< distinguishes communicators made at the same time
  Store* store = nullptr;    ///< used by this communicator only; may be null for a single member
  const Settings* settings = nullptr;
  Deadline until = never;
};

/// Initialises MPI and creates a communicator. Collective over the members: if a member fails or is late, all of them
/// fail, and none blocks in MPI, which has no deadlines. Throws Error.
std::unique_ptr<Comm> meet(const Meeting& meeting);

}  // namespace tutti::mpi
