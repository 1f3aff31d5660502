// HostLink: the launcher's connection to one host, through the agent that the remote start command runs there.
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

/// The words of a remote start command: {host} is replaced by the host's name, which is appended if there is no {host}.
std::vector<std::string> remote_words(const std::string& command, const std::string& host);

class HostLink {
 public:
  HostLink(const Host& host, Sink& error) : host_(host), error_(error) {}

  /// Starts the agent. Returns an empty string, or why it cannot be started.
  std::string start(const Job& job);
  /// Records that the remote start command has ended with `status` from waitpid().
  void reaped(int status) { status_ = status; }
  /// Kills the remote start command and closes the channel.
  void kill();

  /// Appends three entries to poll for.
  void watch(std::vector<pollfd>& entries) const;
  /// Reads and writes as much as possible without blocking. The channel may then have frames.
  void serve();
  /// Sends a heartbeat if one is due.
  void keep_alive(double silence);

  /// Returns how the host was lost (its agent has gone without a goodbye, has another version, or is silent), or an
  /// empty string. Call it after the frames were taken.
  std::string lost(double silence, double start_patience) const;
  Deadline next_look(double silence, double start_patience) const;

  Channel& channel() { return *channel_; }
  bool usable() const noexcept { return channel_ && !over_; }
  const Host& host() const noexcept { return host_; }
  pid_t pid() const noexcept { return pid_; }
  /// True once no more frames are expected: the agent has said goodbye, or the host is lost.
  bool over() const noexcept { return over_; }
  void finish();
  /// Marks the agent as ready. From now on the remote start command's stderr goes to the launcher's stderr; until then
  /// it is kept to explain failures.
  void be_ready() { ready_ = true; }
  bool ready() const noexcept { return ready_; }

 private:
  std::string how_it_went() const;
  void read_error();

  const Host host_;
  Sink& error_;
  std::string shown_;  ///< the remote start command, for messages
  std::unique_ptr<Channel> channel_;
  Descriptor errors_;  ///< stderr of the remote start command
  std::string said_;   ///< its stderr before the agent was ready
  pid_t pid_ = -1;
  std::optional<int> status_;
  bool ready_ = false, over_ = false, remote_ = true;
  Deadline started_ = never, closed_ = never;
  Deadline next_alive_ = Clock::now();
};

}  // namespace tutti::tools
