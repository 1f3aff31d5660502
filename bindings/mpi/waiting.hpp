// Waiting for tutti without holding up MPI.
#pragma once

#include <span>

#include "transports/core/work.hpp"

namespace tutti::preload {

/// Makes the communicator and the receive by which MPI is moved; collective over nobody. After take_library().
void begin_waiting();
void end_waiting() noexcept;

/// Returns when it is done. MPI has its turns meanwhile: a message that a peer must get rid of before it comes to this
/// call may need this rank's MPI. Throws what the work failed with.
void wait_for_work(const Work& work);

/// Waits for any of them, less than a millisecond, and gives MPI a turn.
void wait_a_little(std::span<const Work> works);

}  // namespace tutti::preload
