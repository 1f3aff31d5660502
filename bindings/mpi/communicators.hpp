// The tutti communicators that belong to MPI communicators.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <optional>

#include "bindings/mpi/refusals.hpp"
#include "tutti/communicator.hpp"

namespace tutti::preload {

/// The data that tutti keeps for an MPI communicator, as an attribute that duplicates do not inherit. Destroyed when
/// the communicator has been freed and its last request has completed.
struct Known : std::enable_shared_from_this<Known> {
  std::optional<Communicator> tutti;   ///< empty if MPI makes all calls of the communicator
  std::shared_ptr<Refusals> refusals;  ///< null if `tutti` is empty
  int rank = 0;
  int size = 1;
  std::atomic<bool> freed{false};  ///< the MPI communicator no longer exists
};

/// Creates the attribute's key, and stores `world` for MPI_COMM_WORLD.
void begin_communicators(Communicator world);

/// The Known of `comm`, or null for MPI_COMM_NULL and if find_or_make_known() has not been called for it. Local. Any
/// thread. Valid as long as `comm`.
Known* find_known(MPI_Comm comm);

/// As find_known(), but makes the Known if `comm` has none: then collective over `comm`; blocks. Any thread.
Known* find_or_make_known(MPI_Comm comm);

/// Releases every Known. Called before MPI_Finalize.
void end_communicators() noexcept;

}  // namespace tutti::preload
