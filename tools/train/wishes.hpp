// What signals ask of a training run.
#pragma once

#include "engine/loop/agreement.hpp"

namespace tutti::tools {

/// From now on SIGUSR1 asks for a checkpoint. Call it before SIGUSR1 may come, which would end the process.
void take_checkpoint_signal();

/// From now on the first SIGINT or SIGTERM asks training to end, and a second one ends the process at once. `tells`:
/// this process answers the first one with a line on stderr, which says whether there will be a checkpoint, `keeps`.
void take_ending_signals(bool tells, bool keeps);

/// What has been asked for since the last call.
engine::Wish wish_of_signals();

/// The signal that asked this process to end; 0: none did.
int ending_signal();

}  // namespace tutti::tools
