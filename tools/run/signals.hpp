// Signals: the signals that a launcher handles, blocked and received through a signalfd.
#pragma once

#include <csignal>
#include <optional>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

class Signals {
 public:
  /// Blocks the handled signals, ignores SIGPIPE and makes this process the reaper of orphaned descendants. Call it
  /// while the process has one thread. Throws Error{resource}.
  Signals();

  int fd() const noexcept { return fd_.fd(); }
  /// The next pending signal, or nothing. One SIGCHLD may stand for several processes.
  std::optional<int> next();
  /// The signal mask before the constructor, for the ranks.
  const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t before_ = {};
  Descriptor fd_;
};

}  // namespace tutti::tools
