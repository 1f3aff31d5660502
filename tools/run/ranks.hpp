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
  int status = 0;    ///< status from waitpid()
  std::string lost;  ///< not empty: why the rank's end is unknown; `status` is then meaningless
};

/// Why the ranks cannot be started.
struct Trouble {
  std::string line;
  int exit_code = 1;
};

class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Starts all ranks, or begins to. After a Trouble, signal(SIGKILL) and finish() must still be called.
  virtual std::optional<Trouble> start(const Job& job) = 0;
  /// Sends a signal to all running ranks.
  virtual void signal(int signal) = 0;
  /// Appends descriptors to poll for.
  virtual void watch(std::vector<pollfd>& entries) = 0;
  /// Handles what has arrived or is due. `entries` are those that watch() appended, as poll() returned them.
  virtual std::optional<Trouble> serve(std::span<const pollfd> entries) = 0;
  /// When serve() must be called even if no descriptor is ready.
  virtual Deadline next_look() const = 0;
  /// Some child of this process has ended, stopped or gone on: call it when SIGCHLD has come.
  virtual void reap() = 0;
  /// The ranks that have ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  /// Where a rank runs, for messages: "pid 17" or "h2, pid 17".
  virtual std::string whereabouts(int rank) const = 0;
  /// Call it once all ranks have ended: kills what they left behind, and begins to collect their remaining output.
  virtual void finish() = 0;
  /// True while output may still arrive; call it after finish().
  virtual bool talking() = 0;
};

/// stdout and stderr of the launcher.
struct Sinks {
  Sink output{1};
  Sink error_alone{2};
  const bool same = same_file(1, 2);  ///< one sink if both are the same file, so that lines do not interleave
  Sink& error() { return same ? output : error_alone; }
};

}  // namespace tutti::tools
