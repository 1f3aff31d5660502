// MPI_Init and MPI_Finalize under the preload, for the functions of C and of Fortran.
#pragma once

#include <mpi.h>

namespace tutti::preload {

/// Ends the process with a message.
[[noreturn]] void give_up(const char* what, const char* more) noexcept;

/// Ends the process with a message if this preload was built for another MPI family than the program's.
void check_family() noexcept;

/// Called after MPI has been initialised. Collective over MPI_COMM_WORLD.
void begin() noexcept;

/// Called before MPI_Finalize.
void end() noexcept;

/// Finds the Fortran variables of Open MPI for MPI_IN_PLACE and MPI_BOTTOM. Called before any collective.
void find_fortran_addresses() noexcept;

/// `original` makes the program's call of MPI_Init or MPI_Init_thread.
template <class Original>
int initialize(const Original& original) {
  check_family();
  const int result = original();
  if (result == MPI_SUCCESS) begin();
  return result;
}

}  // namespace tutti::preload
