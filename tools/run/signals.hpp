// Signals: the signals that a launcher handles, blocked and received through a signalfd.
#pragma once

#include <csignal>
#include <optional>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Resets inherited signal settings: no signal is ignored, except SIGHUP if it was (nohup), and no signal is blocked.
/// Async-signal-safe.
void reset_signals() noexcept;

class Signals {
 public:
  /// Blocks the handled signals and no others, ignores SIGPIPE, and makes this process the parent of orphaned
  /// descendants. Call it while the process has one thread. Throws Error{resource}.
  Signals();

  int fd() const noexcept { return fd_.fd(); }
  /// Returns the next pending signal, or nothing. One SIGCHLD may stand for several processes.
  std::optional<int> next();

 private:
  Descriptor fd_;
};

}  // namespace tutti::tools
