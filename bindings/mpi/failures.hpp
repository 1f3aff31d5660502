// Reports tutti's errors as MPI errors.
#pragma once

#include <mpi.h>

#include <exception>

namespace tutti::preload {

/// Creates tutti's MPI error class. Call it after take_library(), while the process has one MPI thread.
void begin_failures();

/// Calls the communicator's error handler with an error code that has the error's text. Returns the code if the handler
/// returns.
int report_failure(MPI_Comm comm, const std::exception& error) noexcept;

}  // namespace tutti::preload
