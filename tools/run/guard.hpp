// Guard: a small process that survives if SIGKILL ends the launcher, and then ends the processes that it has started.
#pragma once

#include <sys/types.h>

#include <exception>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Sends SIGKILL to every other process that was started with TUTTI_STARTER=`mark` in its environment, including those
/// outside the ranks' process groups. Returns how many processes were killed.
int kill_marked(const std::string& mark);

/// Returns the pids of this process's children, including those that have ended and are not waited for; empty if the
/// kernel does not tell.
std::vector<pid_t> children_of_this_process();

/// A process that holds the read end of a pipe from the launcher. If the pipe is closed without dismiss(), the guard
/// kills the watched process groups and all other processes with the mark.
class Guard {
 public:
  /// Forks; call it while the process has one thread. Throws Error{resource}.
  explicit Guard(const std::string& mark);
  /// Dismisses the guard, unless an exception is the reason: then the guard kills the processes.
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
