// Guard: a small process that survives a launcher killed by SIGKILL and ends the processes that it started.
#pragma once

#include <sys/types.h>

#include <exception>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Sends SIGKILL to every other process that was started with TUTTI_STARTER=`mark` in its environment, also outside the
/// ranks' process groups. Returns how many were killed.
int kill_marked(const std::string& mark);

/// The pids of this process's children, also of those that have ended and are not waited for; empty if they cannot be
/// told.
std::vector<pid_t> children_of_this_process();

/// A process that holds the read end of a pipe from the launcher. If the pipe is closed without dismiss(), it kills the
/// watched process groups and all other processes with the mark.
class Guard {
 public:
  /// Forks; call it while the process has one thread. Throws Error{resource}.
  explicit Guard(const std::string& mark);
  /// An exception that leaves the launcher or an agent leaves the killing to the guard.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }
  /// Ends the guard without killing anything.
  void dismiss();
  pid_t pid() const noexcept { return pid_; }

 private:
  void tell(pid_t word);

  Descriptor pipe_;
  pid_t pid_ = -1;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti::tools
