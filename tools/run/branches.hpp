// Branches: the agents that this process has started, each with the hosts below it; of the launcher, and of an agent.
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

/// Which hosts are to be started, of those in job.hosts.
struct Below {
  std::size_t first = 0;      ///< place of job.hosts.front() in the tree's order
  std::vector<Branch> parts;  ///< by place
  std::size_t leaves = 0;     ///< so many of the parts are this host by other names, which need no remote start
};

class Branches {
 public:
  using Up = std::function<void(Frame&&)>;

  /// `guard` watches the remote starts, `error` takes what they write to stderr; both must outlive this. Throws
  /// Error{resource}.
  Branches(Guard& guard, Sink& error) : guard_(guard), error_(error) {}

  /// Starts an agent for every branch, and tells each what to run. After a Trouble call kill().
  std::optional<Trouble> start(const Job& job, Below below, const std::string& folder);
  bool empty() const noexcept { return links_.empty(); }

  /// Tells all agents that are left.
  void say(const Frame& frame);
  /// Tells the agent on the way to the rank. Returns false if that is not below, or lost.
  bool say_to(int rank, const Frame& frame);

  /// Readable while serve() has something to read or can write.
  int fd() const noexcept { return waits_.fd(); }
  /// When serve() is to be called at the latest.
  Deadline next_look() const;
  /// Reads and writes without blocking, sends heartbeats and looks for losses. Passes on what can be true of ranks and
  /// hosts, and Say::lost and Say::refused for what it finds itself; ready, alive and goodbye stay here.
  void serve(const Up& up);
  /// True if `pid` is an agent of here or its remote start, which `status` from waitpid() is about.
  bool reaped(pid_t pid, int status);

  /// All branches are ready.
  bool ready() const noexcept { return ready_ == links_.size(); }
  /// All have said goodbye, or are lost.
  bool over() const noexcept { return over_ == links_.size(); }
  /// Kills the remote starts and closes the channels, which ends what is below.
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
  std::vector<std::size_t> touched_;  ///< links at which serve() is to look
  std::size_t ready_ = 0, over_ = 0;
  double silence_ = 0, start_patience_ = 0;
  bool error_full_ = false;  ///< stderr has not been read for a while, as nobody takes it
  Deadline next_look_ = never;
};

}  // namespace tutti::tools
