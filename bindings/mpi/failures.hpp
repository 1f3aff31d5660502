// A failure of tutti as an error of MPI.
#pragma once

#include <mpi.h>

#include <exception>

namespace tutti::preload {

/// Makes an error class for tutti. After take_library(); while MPI has one thread.
void begin_failures();

/// Calls the communicator's error handler with a code whose text is the error's. The code, where the handler returns.
int report_failure(MPI_Comm comm, const std::exception& error) noexcept;

}  // namespace tutti::preload
