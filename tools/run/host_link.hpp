// HostLink: the connection to one host, through the agent that the remote start command runs there.
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

/// The words of a remote start command: {host} is replaced by the host's name, which is appended if there is no {host}.
std::vector<std::string> remote_words(const std::string& command, const std::string& host);

/// The file of this program.
std::string own_program();

/// It holds two descriptors: a socket that is stdin and stdout of the remote start command, and a pipe from its stderr.
class HostLink {
 public:
  /// `levels` is height() of the branch: how many starts after one another bring it up. `waits` is what the process
  /// waits with: it has twice `index` as the tag of the channel, and one more for stderr. Both references must outlive
  /// this.
  HostLink(const Branch& branch, int levels, Sink& error, Readiness& waits, std::size_t index)
      : branch_(branch), levels_(levels), error_(error), waits_(waits), tag_(2 * index) {}

  /// Starts the agent; without `remote` as a child of this process, for this host. Returns an empty string, or why it
  /// cannot be started.
  std::string start(const Job& job, const Host& host, bool remote);
  /// Records that the remote start command has ended with `status` from waitpid().
  void reaped(int status) { status_ = status; }
  /// Kills the remote start command and closes the channel.
  void kill();
  /// Closes the channel.
  void finish();

  /// Brings what is waited for in line with what may be read and is to be written. Call it after every use of the
  /// channel.
  void watch();
  /// Reads from the channel and writes to it as much as possible without blocking. It may then have frames.
  void serve(std::uint32_t events);
  /// Reads the remote start command's stderr.
  void read_error();
  /// Sends a heartbeat if one is due; from the agent's greeting on.
  void keep_alive(double silence);

  /// Returns how the host was lost (its agent has gone without a goodbye, has another version, is silent, or does not
  /// become ready), or an empty string. Call it after the frames were taken.
  std::string lost(double silence, double start_patience) const;
  Deadline next_look(double silence, double start_patience) const;

  Channel& channel() { return *channel_; }
  bool usable() const noexcept { return channel_ && !over_; }
  /// The other side has closed the channel.
  bool closed() const noexcept { return closed_ != never; }
  /// No more is expected: the agent has said goodbye, or the host is lost.
  bool over() const noexcept { return over_; }
  const Branch& branch() const noexcept { return branch_; }
  pid_t pid() const noexcept { return pid_; }
  /// True while the remote start's process has not been waited for, so that its number is its own.
  bool has_process() const noexcept { return pid_ > 0 && !status_; }
  /// Marks the branch as ready. From now on the remote start command's stderr goes to this process's stderr; until then
  /// it is kept to explain failures.
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
  std::uint32_t channel_events_ = 0, error_events_ = 0;  ///< what is waited for
  std::string said_;                                     ///< its stderr before the agent was ready
  pid_t pid_ = -1;
  std::optional<int> status_;
  bool ready_ = false, over_ = false, errors_ended_ = false;
  Deadline started_ = never, closed_ = never;
  Deadline next_alive_ = Clock::now();
};

}  // namespace tutti::tools
