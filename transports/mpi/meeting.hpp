// How the members of an MPI communicator make sure of one another before they make it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transports/mpi/session.hpp"
#include "transports/provider.hpp"

namespace tutti::mpi {

struct Meeting {
  std::int64_t base = no_native;  ///< the MPI communicator whose ranks are the job's
  int world_size = 1, world_rank = 0;
  std::vector<int> members;  ///< world ranks, this one's among them
  std::uint64_t name = 0;    ///< sets apart what is made at the same time
  Store* store = nullptr;    ///< for this communicator alone; may be null for a member alone
  const Settings* settings = nullptr;
  Deadline until = never;
};

/// Begins MPI and makes a communicator. Collective among the members: where one cannot, or does not come in time, all
/// hear of it, and none waits in MPI, which knows no deadline. Throws Error.
std::unique_ptr<Comm> meet(const Meeting& meeting);

}  // namespace tutti::mpi
