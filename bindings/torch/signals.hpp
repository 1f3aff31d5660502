// Signals of Python while a call blocks.
#pragma once

#include <chrono>

#include "tutti/clock.hpp"
#include "tutti/work.hpp"

namespace tutti::torch_binding {

/// How long a blocking call may leave a signal unanswered.
constexpr std::chrono::milliseconds signal_interval{100};

/// Runs Python's handlers of the signals that have arrived, where the calling thread is the process's first one, which
/// is Python's main thread. Throws what a handler raises: KeyboardInterrupt after Ctrl-C. Takes the GIL.
void check_signals();

/// Blocks until the work is done or `until` has passed; true if it is done. Throws as tutti::Work::wait() and
/// check_signals().
bool wait_until(const tutti::Work& work, Deadline until);

}  // namespace tutti::torch_binding
