// Stops: ranks that a signal has stopped, such as those that read from the terminal.
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

/// Which ranks of this host are stopped, and since when. A stop that is asked for, or short, is not told of.
class Stops {
 public:
  void stopped(int rank, int signal);
  /// The rank runs again, or has ended.
  void over(int rank) { since_.erase(rank); }
  /// A signal is sent to all ranks.
  void sent(int signal);

  /// The ranks that have been stopped for two seconds, each once.
  std::vector<Stopped> take_long();
  /// How many ranks are stopped, also for a short time.
  int count() const noexcept { return static_cast<int>(since_.size()); }
  /// When take_long() will have something to tell.
  Deadline next_look() const;

 private:
  struct Stop {
    int signal = 0;
    Deadline told_at = never;  ///< never: told already
  };
  std::map<int, Stop> since_;  ///< by rank
  bool asked_for_ = false;     ///< the launcher is stopped, too
};

/// Tells the user. `whereabouts` is that of the rank: "pid 17". `others_run`: some ranks are not stopped, and wait.
void say_stopped(Sink& sink, int rank, const std::string& whereabouts, int signal, bool others_run);

}  // namespace tutti::tools
