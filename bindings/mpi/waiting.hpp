// Waits for tutti while MPI makes progress.
#pragma once

#include <span>

#include "bindings/mpi/communicators.hpp"
#include "tutti/work.hpp"

namespace tutti::preload {

/// Posts an MPI receive that never completes; testing it drives MPI's progress. Local. Call it after take_library().
void begin_waiting();
void end_waiting() noexcept;

/// Blocks until `work`, a call of `known`, is done. Drives MPI's progress meanwhile, because a peer may have to send an
/// MPI message to this rank before it joins the call. Throws the error of the work.
void wait_for_work(const Work& work, Known& known);

/// Waits for any of `works` for less than a millisecond, then drives MPI's progress.
void wait_a_little(std::span<const Work> works);

}  // namespace tutti::preload
