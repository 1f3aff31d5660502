// The backend mpi: MPI's own collectives on a communicator of its own.
#pragma once

#include <memory>

#include "transports/backend.hpp"
#include "transports/provider.hpp"

namespace tutti::mpi {

/// Collective among the group's members. Throws Error.
std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting);

}  // namespace tutti::mpi
