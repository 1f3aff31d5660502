// Signals by which the user asks something of a training run.
#pragma once

#include "engine/loop/agreement.hpp"

namespace tutti::tools {

/// From now on SIGUSR1 asks for a checkpoint. Call it before a SIGUSR1 can arrive: by default it ends the process.
void take_checkpoint_signal();

/// From now on the first SIGINT or SIGTERM asks training to end, and a second one ends the process at once. `tells`:
/// this process answers the first signal with a line on stderr. `keeps`: the line says that there will be a checkpoint.
void take_ending_signals(bool tells, bool keeps);

/// Returns what signals have asked for: the end, in every call from its signal on; otherwise a checkpoint, if a signal
/// since the last call asked for one.
engine::Wish wish_of_signals();

/// Returns the signal that asked this process to end; 0 if there was none.
int ending_signal();

}  // namespace tutti::tools
