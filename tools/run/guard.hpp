// Guard: a small process that outlives a launcher killed by -9 just long enough to end what it started.
#pragma once

#include <sys/types.h>

#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Ends, by SIGKILL, every process whose environment has TUTTI_STARTER=`mark`, but not this one: also those that left
/// their process group. Returns how many.
int kill_marked(const std::string& mark);

/// Lives beside the launcher and holds a pipe from it. When the pipe ends without a word, it kills the process groups
/// that it was told of and all other processes with the mark.
class Guard {
 public:
  /// Forks; call it while the process has one thread.
  explicit Guard(const std::string& mark);
  ~Guard() { dismiss(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }
  /// All has ended: the guard goes without killing anybody.
  void dismiss();
  pid_t pid() const noexcept { return pid_; }

 private:
  void tell(pid_t word);

  Descriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace tutti::tools
