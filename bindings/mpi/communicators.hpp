// The communicators of MPI for which there is one of tutti.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "collectives/api/communicator.hpp"

namespace tutti::preload {

/// Hangs on a communicator of MPI as an attribute, so that a duplicate starts anew, and lives until that is freed and
/// its last request has ended.
struct Known : std::enable_shared_from_this<Known> {
  std::optional<Communicator> tutti;  ///< empty where MPI does all of its calls
  int rank = 0;
  int size = 1;
};

/// Makes the attribute's key, and `world` known as MPI_COMM_WORLD's.
void begin_communicators(Communicator world);

/// Returns what find_or_make_known() has made for `comm`, or null. Local. Any thread. The result lives as long as
/// `comm`.
Known* find_known(MPI_Comm comm);

/// The same; what nobody has asked for yet is made, which is collective over `comm` and blocks. Any thread.
Known* find_or_make_known(MPI_Comm comm);

/// Drops all, before MPI_Finalize.
void end_communicators() noexcept;

}  // namespace tutti::preload
