// Stops: records ranks that a signal has stopped, such as those that read from the terminal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/run/sink.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

struct Stopped {
  int rank = 0;
  int signal = 0;
};

/// The stopped ranks of this host, and since when they are stopped. Requested and short stops are not reported.
class Stops {
 public:
  void stopped(int rank, int signal);
  /// Records that the rank runs again, or has ended.
  void over(int rank) { since_.erase(rank); }
  /// Records that a signal is sent to all ranks. From SIGTSTP to SIGCONT, stops count as intended by the user.
  void sent(int signal);

  /// Returns the ranks that have been stopped for two seconds, each once.
  std::vector<Stopped> take_long();
  /// The number of stopped ranks, including those stopped for a short time.
  int count() const noexcept { return static_cast<int>(since_.size()); }
  /// The time when take_long() will return something.
  Deadline next_look() const;

 private:
  struct Stop {
    int signal = 0;
    Deadline told_at = never;  ///< when to report it; never: already reported
  };
  std::map<int, Stop> since_;  ///< by rank
  bool asked_for_ = false;     ///< the launcher is stopped too
};

/// Reports a stopped rank to the user. `whereabouts`: "pid 17", for example. `others_run`: true if other ranks run.
void say_stopped(Sink& sink, int rank, const std::string& whereabouts, int signal, bool others_run);

}  // namespace tutti::tools
