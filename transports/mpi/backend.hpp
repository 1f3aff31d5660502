// The backend mpi: MPI's collectives on its own communicator.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tutti/provider/backend.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::mpi {

/// See Provider::algorithms.
std::span<const std::string_view> algorithms(Kind kind);

/// Collective over the group's members. Throws Error.
std::unique_ptr<Backend> make_backend(const BackendMeeting& meeting);

}  // namespace tutti::mpi
