// The backend mpi: MPI's collectives on its own communicator.
#pragma once

#include <memory>

#include "tutti/provider/backend.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::mpi {

/// Collective over the group's members. Throws Error.
std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting);

}  // namespace tutti::mpi
