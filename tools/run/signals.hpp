// Signals: those that a launcher handles, blocked and handed out through a descriptor.
#pragma once

#include <csignal>
#include <optional>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

class Signals {
 public:
  /// Blocks them, ignores SIGPIPE and makes this process the parent of orphans. Call it while there is one thread.
  Signals();

  int fd() const noexcept { return fd_.fd(); }
  /// The next that has come; SIGCHLD may stand for several.
  std::optional<int> next();
  /// What was blocked before, for the ranks.
  const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t before_ = {};
  Descriptor fd_;
};

}  // namespace tutti::tools
