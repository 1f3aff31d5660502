// The beginning and the end of a program's MPI, for the functions of C and of Fortran.
#pragma once

#include <mpi.h>

namespace tutti::preload {

/// Ends the process with a message.
[[noreturn]] void give_up(const char* what, const char* more) noexcept;

/// Ends the process with a message if this preload is not the one of the program's MPI.
void check_family() noexcept;

/// Called after MPI has been initialised. Collective over MPI_COMM_WORLD.
void begin() noexcept;

/// Called before MPI_Finalize.
void end() noexcept;

/// Finds the variables by which Open MPI's Fortran names special addresses. Called before any collective.
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
