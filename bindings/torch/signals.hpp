// Handles Python's signals, such as Ctrl-C, while a call blocks.
#pragma once

#include <chrono>

#include "tutti/clock.hpp"
#include "tutti/work.hpp"

namespace tutti::torch_binding {

/// The longest time after which a blocking call handles a signal.
constexpr std::chrono::milliseconds signal_interval{100};

/// On Python's main thread, runs Python's handlers of the signals that have arrived; does nothing on other threads. The
/// main thread is the process's first thread. Throws the exception of a handler: KeyboardInterrupt after Ctrl-C. Takes
/// the GIL.
void check_signals();

/// Blocks until the work is done or `until` has passed; returns true if it is done. Throws as tutti::Work::wait() and
/// check_signals().
bool wait_until(const tutti::Work& work, Deadline until);

}  // namespace tutti::torch_binding
