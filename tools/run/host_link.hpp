// HostLink: the launcher's side of one host, that is of the agent which a remote start has started there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/channel.hpp"
#include "tools/run/job.hpp"
#include "tools/run/sink.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {

/// The words of a remote start: {host} stands for the host's name, which is the last word where no {host} is.
std::vector<std::string> remote_words(const std::string& command, const std::string& host);

class HostLink {
 public:
  HostLink(const Host& host, Sink& error) : host_(host), error_(error) {}

  /// Starts the agent. Returns why it cannot, or nothing.
  std::string start(const Job& job, const sigset_t& mask);
  /// The remote start has ended.
  void reaped(int status) { status_ = status; }
  /// Gives up: kills the remote start.
  void kill();

  /// Appends three entries.
  void watch(std::vector<pollfd>& entries) const;
  /// Reads and writes what can be; afterwards frames may be there.
  void serve();
  /// Says that it is alive where that is due.
  void keep_alive(double silence);

  /// Not empty: the agent has gone without a goodbye, or is silent; says how. Called after its frames were taken.
  std::string lost(double silence, double start_patience) const;
  Deadline next_look(double silence, double start_patience) const;

  Channel& channel() { return *channel_; }
  bool usable() const noexcept { return channel_ && !over_; }
  const Host& host() const noexcept { return host_; }
  pid_t pid() const noexcept { return pid_; }
  /// No more is expected: it has said goodbye, or is lost.
  bool over() const noexcept { return over_; }
  void finish();
  /// From here on what the remote start writes to stderr goes on to the launcher's; until then it explains failures.
  void be_ready() { ready_ = true; }
  bool ready() const noexcept { return ready_; }

 private:
  std::string how_it_went() const;
  void read_error();

  const Host host_;
  Sink& error_;
  std::string shown_;  ///< the remote start, for messages
  std::unique_ptr<Channel> channel_;
  Descriptor errors_;  ///< the remote start's stderr
  std::string said_;   ///< what came there before the agent was ready
  pid_t pid_ = -1;
  std::optional<int> status_;
  bool ready_ = false, over_ = false, remote_ = true;
  Deadline started_ = never, closed_ = never;
  Deadline next_alive_ = Clock::now();
};

}  // namespace tutti::tools
