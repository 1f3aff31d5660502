// HostLink: the connection to one host. The remote start command runs an agent on it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/channel.hpp"
#include "tools/run/job.hpp"
#include "tools/run/readiness.hpp"
#include "tools/run/sink.hpp"
#include "tools/run/spawn.hpp"
#include "tools/run/tree.hpp"

namespace tutti::tools {

/// Returns the words of a remote start command: replaces {host} by the host's name, or appends it if there is no
/// {host}.
std::vector<std::string> remote_words(const std::string& command, const std::string& host);

/// Returns the path of this program.
std::string own_program();

/// Holds two descriptors: a socket that is stdin and stdout of the remote start command, and a pipe from its stderr.
class HostLink {
 public:
  /// `levels` is height() of the branch: the number of consecutive starts that bring it up. `waits` is the epoll set
  /// with which this process waits. There the channel has the tag 2 * `index`, and stderr the next tag. Both references
  /// must outlive this object.
  HostLink(const Branch& branch, int levels, Sink& error, Readiness& waits, std::size_t index)
      : branch_(branch), levels_(levels), error_(error), waits_(waits), tag_(2 * index) {}

  /// Starts the agent: with `remote` by the remote start command, otherwise as a child of this process, for this host.
  /// Returns an empty string, or why the agent cannot be started.
  std::string start(const Job& job, const Host& host, bool remote);
  /// Records that the remote start command has ended with `status` from waitpid().
  void reaped(int status) { status_ = status; }
  /// Kills the remote start command and closes the channel.
  void kill();
  /// Closes the channel.
  void finish();

  /// Updates the events that are waited for. Call it after every use of the channel.
  void watch();
  /// Reads from the channel and writes to it as much as possible without blocking. Afterwards the channel may have
  /// frames.
  void serve(std::uint32_t events);
  /// Reads the remote start command's stderr.
  void read_error();
  /// Sends a heartbeat if one is due, beginning when the agent's greeting has arrived.
  void keep_alive(double silence);

  /// Returns why the host is lost, or an empty string. Causes: its agent has gone without a goodbye, has another
  /// version, is silent, or does not become ready. Call it after all frames were handled.
  std::string lost(double silence, double start_patience) const;
  Deadline next_look(double silence, double start_patience) const;

  Channel& channel() { return *channel_; }
  bool usable() const noexcept { return channel_ && !over_; }
  /// The time when something was last received; the link must be usable().
  Deadline heard() const noexcept { return channel_->heard(); }
  /// True if the other side has closed the channel.
  bool closed() const noexcept { return closed_ != never; }
  /// True if nothing more is expected: the agent has said goodbye, or the host is lost.
  bool over() const noexcept { return over_; }
  const Branch& branch() const noexcept { return branch_; }
  pid_t pid() const noexcept { return pid_; }
  /// True until the remote start's process has been waited for. Until then, no other process can have its pid.
  bool has_process() const noexcept { return pid_ > 0 && !status_; }
  /// Marks the branch as ready. From now on the remote start command's stderr goes to this process's stderr. Before, it
  /// is kept to explain failures.
  void be_ready() { ready_ = true; }
  bool ready() const noexcept { return ready_; }

 private:
  bool is_there() const noexcept { return channel_->greeted().has_value(); }
  Seconds until_ready(double start_patience) const noexcept;
  std::string remote_start_text() const;
  std::string how_it_went() const;

  const Branch branch_;
  const int levels_;
  Sink& error_;
  Readiness& waits_;
  const std::uint64_t tag_;
  std::string shown_;  ///< the remote start command, for messages
  std::unique_ptr<Channel> channel_;
  Descriptor errors_;                                    ///< stderr of the remote start command
  std::uint32_t channel_events_ = 0, error_events_ = 0;  ///< the events that are waited for
  std::string said_;                                     ///< the command's stderr before the agent was ready
  pid_t pid_ = -1;
  std::optional<int> status_;
  bool ready_ = false, over_ = false, errors_ended_ = false;
  Deadline started_ = never, closed_ = never;
  Deadline next_alive_ = Clock::now();
};

}  // namespace tutti::tools
