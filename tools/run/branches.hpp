// Branches: the agents that this process has started, each with the hosts below it. Used by the launcher and by agents.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/claims.hpp"
#include "tools/run/guard.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/readiness.hpp"

namespace tutti::tools {

/// The hosts of job.hosts that are to be started.
struct Below {
  std::size_t first = 0;      ///< index of job.hosts.front() in the tree's order of all hosts (tree.hpp)
  std::vector<Branch> parts;  ///< the branches, in the tree's order
  std::size_t leaves = 0;     ///< how many of the parts are this host under other names; they need no remote start
};

class Branches {
 public:
  using Up = std::function<void(Frame&&)>;

  /// `guard` watches the remote starts. `error` takes what they write to stderr. Both must outlive this object. Throws
  /// Error{resource}.
  Branches(Guard& guard, Sink& error) : guard_(guard), error_(error) {}

  /// Starts an agent for every branch, and sends each the job. If a Trouble is returned, call kill().
  std::optional<Trouble> start(const Job& job, Below below, const std::string& folder);
  bool empty() const noexcept { return links_.empty(); }

  /// Sends a frame to all agents that are left.
  void say(const Frame& frame);
  /// Sends a frame to the agent on the way to the rank. Returns false if the rank is not below, or is lost.
  bool say_to(int rank, const Frame& frame);

  /// When the agent of a host that this process has started was last heard of; `never` for another host.
  Deadline heard(std::size_t host) const;

  /// A descriptor that is readable while serve() has something to read or to write.
  int fd() const noexcept { return waits_.fd(); }
  /// The time by which serve() must be called.
  Deadline next_look() const;
  /// Reads and writes without blocking, sends heartbeats, and detects lost branches. Calls `up` with frames about ranks
  /// and hosts that Claims has accepted, and with Say::lost and Say::refused for what it detects itself. Frames ready,
  /// alive and goodbye are handled here and not passed to `up`.
  void serve(const Up& up);
  /// Handles waitpid()'s `status` for `pid`. Returns true if `pid` is an agent of this host or a remote start.
  bool reaped(pid_t pid, int status);

  /// True if all branches are ready.
  bool ready() const noexcept { return ready_ == links_.size(); }
  /// True if all branches have said goodbye or are lost.
  bool over() const noexcept { return over_ == links_.size(); }
  /// Kills the remote starts and closes the channels; the agents below then end.
  void kill();
  std::vector<pid_t> pids() const;

 private:
  using Links = std::deque<HostLink>;

  void touch(std::size_t index) { touched_.push_back(index); }
  void look(std::size_t index, const Up& up);
  void take(std::size_t index, const Up& up);
  void take(std::size_t index, Frame&& frame, const Up& up);
  void leave(std::size_t index, bool killed);

  Guard& guard_;
  Sink& error_;
  Readiness waits_;
  std::optional<Claims> claims_;
  Links links_;
  std::vector<std::size_t> touched_;  ///< links that serve() has to check
  std::size_t ready_ = 0, over_ = 0;
  double silence_ = 0, start_patience_ = 0;
  bool error_full_ = false;  ///< the agents' stderr has not been read for a while, because `error_` is full
  Deadline next_look_ = never;
};

}  // namespace tutti::tools
