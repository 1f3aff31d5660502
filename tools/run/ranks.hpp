// Ranks: the processes that a launcher supervises, on this host or on several.
#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/run/job.hpp"
#include "tools/run/signals.hpp"
#include "tools/run/sink.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

inline constexpr int exit_not_found = 127, exit_not_executable = 126, exit_host_lost = 125, exit_time_limit = 124,
                     exit_signal_base = 128;

/// A rank that has ended.
struct Ended {
  int rank = 0;
  int status = 0;         ///< status from waitpid()
  std::string lost = {};  ///< why the rank's end is unknown; `status` then has no meaning; empty: it is known
  std::string last = {};  ///< what its records say of its end, if a signal has killed it: "it ended in call 17 of ..."
  std::string unstarted = {};  ///< why its replacement could not be started; `status` then has the exit code for that
  std::string where = {};      ///< where the process ran, for messages: "pid 17" or "h2, pid 17"
};

/// The reason why the ranks cannot be started, as a line for the user.
struct Trouble {
  std::string line;
  int exit_code = 1;
};

class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Starts all ranks, or begins to start them. After a Trouble, signal(SIGKILL) and finish() must still be called.
  virtual std::optional<Trouble> start(const Job& job) = 0;
  /// Starts a process in the place of a rank that has ended. `number` is the value of its TUTTI_JOIN. If it cannot be
  /// started, ended() says so.
  virtual void restart(int rank, int number) = 0;
  /// Sends a signal to all running ranks.
  virtual void signal(int signal) = 0;
  /// Appends descriptors to poll for.
  virtual void watch(std::vector<pollfd>& entries) = 0;
  /// Handles data that have arrived and actions that are due. `entries` are those that watch() appended, after poll().
  virtual std::optional<Trouble> serve(std::span<const pollfd> entries) = 0;
  /// The time when serve() must be called even if no descriptor is ready.
  virtual Deadline next_look() const = 0;
  /// Call it after SIGCHLD: a child of this process has ended, stopped or continued.
  virtual void reap() = 0;
  /// Returns the ranks that have ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  /// Call it after all ranks have ended. Kills what they left behind, and begins to collect the remaining output.
  virtual void finish() = 0;
  /// Returns true while output may still arrive; call it after finish().
  virtual bool talking() = 0;

  /// The descriptor of the memory into which all ranks record their calls; -1: there is none, or the ranks are
  /// elsewhere.
  int recorder() const noexcept { return recorder_; }

 protected:
  int recorder_ = -1;
};

/// stdout and stderr of the launcher.
struct Sinks {
  Sink output{1};
  Sink error_alone{2};
  const bool same = same_file(1, 2);  ///< one sink if both are the same file, so that lines do not interleave
  Sink& error() { return same ? output : error_alone; }
};

}  // namespace tutti::tools
