// Ranks: what a session of the launcher supervises, the ranks of this host or those of several.
#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/run/job.hpp"
#include "tools/run/signals.hpp"
#include "tools/run/sink.hpp"
#include "transports/core/clock.hpp"

namespace tutti::tools {

inline constexpr int exit_not_found = 127, exit_not_executable = 126, exit_host_lost = 125, exit_time_limit = 124,
                     exit_signal_base = 128;

/// A rank that has ended.
struct Ended {
  int rank = 0;
  int status = 0;    ///< of waitpid()
  std::string lost;  ///< not empty: why nothing is known of its end, and `status` means nothing
};

/// Why the ranks cannot be started.
struct Trouble {
  std::string line;
  int exit_code = 1;
};

class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Starts all ranks, or begins to. After a trouble, signal(SIGKILL) and finish() are still called.
  virtual std::optional<Trouble> start(const Job& job) = 0;
  /// Sends a signal to all ranks that run.
  virtual void signal(int signal) = 0;
  /// Appends what to poll for.
  virtual void watch(std::vector<pollfd>& entries) = 0;
  /// Does what is due, whatever poll() said of the entries that watch() appended.
  virtual std::optional<Trouble> serve(std::span<const pollfd> entries) = 0;
  /// When serve() wants to be called though nothing was heard.
  virtual Deadline next_look() const = 0;
  /// Who has ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  /// "pid 17", "h2, pid 17".
  virtual std::string whereabouts(int rank) const = 0;
  /// All have ended: ends what they left behind, begins to collect the rest of what they said.
  virtual void finish() = 0;
  /// After finish(): something may still come.
  virtual bool talking() = 0;
};

/// stdout and stderr of the launcher.
struct Sinks {
  Sink output{1};
  Sink error_alone{2};
  const bool same = same_file(1, 2);  ///< one sink then, or lines would get into lines
  Sink& error() { return same ? output : error_alone; }
};

}  // namespace tutti::tools
