// Signals: the signals that a launcher handles, blocked and received through a signalfd.
#pragma once

#include <csignal>
#include <optional>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Undoes what this process has inherited: no signal is ignored, but SIGHUP if it was (nohup), and none is blocked.
/// Async-signal-safe.
void reset_signals() noexcept;

class Signals {
 public:
  /// Blocks the handled signals and no others, ignores SIGPIPE and makes this process the reaper of orphaned
  /// descendants. Call it while the process has one thread. Throws Error{resource}.
  Signals();

  int fd() const noexcept { return fd_.fd(); }
  /// The next pending signal, or nothing. One SIGCHLD may stand for several processes.
  std::optional<int> next();

 private:
  Descriptor fd_;
};

}  // namespace tutti::tools
