// Processes: the ranks that this process has started, each in a process group of its own.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/run/guard.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/spawn.hpp"
#include "tools/run/stops.hpp"

namespace tutti::tools {

class Processes {
 public:
  /// `mark` is the value of TUTTI_STARTER in the started processes. Forks a guard; call it while the process has one
  /// thread.
  explicit Processes(std::string mark) : mark_(std::move(mark)), guard_(mark_) {}

  /// Makes the memory into which the ranks of this host record their calls, for `ranks` processes that are started from
  /// now on. It lasts as long as this object. `setting` is the setting `recorder`. Where memory is refused, a rank
  /// makes its own. Throws Error{invalid} for a folder that cannot be written to.
  void record(int ranks, const std::string& setting, const std::string& job);
  /// The descriptor of that memory; -1: there is none.
  int recorder() const noexcept { return recorder_.fd(); }
  /// Binds each process that is started from now on to one of this process's cores, in turn.
  void bind();
  /// Starts a rank. Returns its pid, or -errno.
  pid_t start(int rank, RankProcess process);
  /// Starts a process in the place of a rank that has ended: it gets the same core, and records its calls where that
  /// one did. Kills what that one has left in its process group. Returns the pid, or -errno.
  pid_t restart(int rank, RankProcess process);
  /// Signals the process groups of all running ranks. SIGCONT follows SIGTERM, so that stopped processes receive it.
  void signal(int signal);
  /// Handles `status`, which waitpid() returned for `pid`. Returns the rank if a rank has ended.
  std::optional<Ended> reaped(pid_t pid, int status);
  /// Reaps children without blocking. Returns the ranks that have ended. Only for a process without other children.
  std::vector<Ended> reap();
  /// Kills the processes that ranks have left behind: members of their process groups, and processes with the mark.
  /// `others` are children of this process that are not ranks. This process adopts orphaned descendants (see Signals),
  /// so it searches for marked processes only if it has children besides the guard and `others`.
  void finish(const std::vector<pid_t>& others = {});
  /// The guard of the ranks and of other processes that this process starts.
  Guard& guard() { return guard_; }

  /// Returns the ranks that have been stopped for a while, each once. reap() and reaped() notice stops.
  std::vector<Stopped> take_stopped() { return stops_.take_long(); }
  /// True if some ranks are not stopped.
  bool others_run() const { return running() > stops_.count(); }
  /// The time when take_stopped() will return something.
  Deadline next_look() const { return stops_.next_look(); }

  int running() const noexcept { return static_cast<int>(running_.size()); }
  pid_t pid_of(int rank) const;

 private:
  struct Process {
    int rank = 0;
    pid_t pid = -1;
    bool running = false;
    bool group_left = false;  ///< its process group may still have members; if false, the number may be reused
    bool is_recorded = true;  ///< its place in the memory of the recorders has no records of an earlier process
  };
  pid_t launch(std::size_t index, RankProcess process);
  bool alone(const std::vector<pid_t>& others) const;
  std::string last_words(std::size_t index, int status);

  const std::string mark_;
  Guard guard_;
  std::vector<Process> all_;
  std::unordered_map<pid_t, std::size_t> running_;  ///< by pid: the index in all_
  Stops stops_;
  Inherited recorder_;
  int told_ = 0;            ///< how many times last_words() has read records
  std::vector<int> cores_;  ///< the cores to bind to; empty: no binding
};

}  // namespace tutti::tools
