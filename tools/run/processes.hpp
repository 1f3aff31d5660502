// Processes: the ranks that this process has started, each in a process group of its own.
#pragma once

#include <string>
#include <vector>

#include "tools/run/guard.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {

class Processes {
 public:
  /// `mark`: the value of TUTTI_STARTER in what is started. Forks a guard; call it while there is one thread.
  explicit Processes(std::string mark) : mark_(std::move(mark)), guard_(mark_) {}

  /// Of those that are started from now on, each may use one core: one after the other of this process's.
  void bind();
  /// Returns the pid, or -errno.
  pid_t start(int rank, RankProcess process);
  /// To the groups of all that run. SIGTERM wakes those that are stopped, which could not hear it.
  void signal(int signal);
  /// Those that have ended.
  std::vector<Ended> reap();
  /// Kills what ranks have left behind: members of their groups and whoever carries the mark.
  void finish();

  int running() const;
  pid_t pid_of(int rank) const;

 private:
  struct Process {
    int rank = 0;
    pid_t pid = -1;
    bool running = false;
    bool group_left = true;  ///< its group may still have members; later its number may be another's
  };
  const std::string mark_;
  Guard guard_;
  std::vector<Process> all_;
  std::vector<int> cores_;  ///< to bind to; empty: to none
};

}  // namespace tutti::tools
