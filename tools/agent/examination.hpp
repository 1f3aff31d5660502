// Examination: reads the recorders of this host's ranks and looks at their processes, for a doctor on another host.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/run/channel.hpp"

namespace tutti::tools {

/// A child process does the work: looking at a process stops it by ptrace, whose notices would otherwise come between
/// those about the agent's own children. One examination runs at a time; a new one ends the one before.
class Examination {
 public:
  struct Subject {
    std::string job;         ///< its name
    std::vector<int> ranks;  ///< of this host
    int recorder = -1;       ///< the descriptor of their recorders' memory; -1: each rank has its own
    std::int32_t host = 0;   ///< for Say::examined
  };
  ~Examination() { end(); }

  /// Begins to answer `question`, a Say::ask. Where no process can be started, nothing is answered. Call it while this
  /// process has one thread.
  void begin(const Frame& question, const Subject& subject);
  /// watch() appends one entry to poll for. serve() passes on what has been found.
  void watch(std::vector<pollfd>& entries) const;
  void serve(Channel& above);
  /// The child, until it has been waited for; -1: there is none.
  pid_t pid() const noexcept { return pid_; }
  /// Handles waitpid()'s `status` for `pid`. Returns true if it is the child.
  bool reaped(pid_t pid);

 private:
  void end();

  std::unique_ptr<Channel> found_;
  pid_t pid_ = -1;
};

}  // namespace tutti::tools
