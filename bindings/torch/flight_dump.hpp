// Dumps of the flight recorder into the files that TORCH_FR_DUMP_TEMP_FILE names, when a group fails.
#pragma once

#include "tutti/communicator.hpp"

namespace tutti::torch_binding::flight_dump {

/// Makes this rank dump when another rank of `world`, the communicator of a whole job, says that a group has failed.
void listen(Communicator& world);

/// Called when a group fails for the first time: the ranks of all jobs of this process dump, and this rank's dump is
/// waited for, for some seconds at most. Does nothing for abort() and errors of the arguments. Call it without the GIL,
/// any thread.
void group_failed(Code why) noexcept;

}  // namespace tutti::torch_binding::flight_dump
