// OwnRanks: the ranks of an agent's own host.
#pragma once

#include <poll.h>

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/run/channel.hpp"
#include "tools/run/processes.hpp"
#include "transports/core/byte_queue.hpp"

namespace tutti::tools {

/// What it tells goes into the channel's queue: the caller flushes.
class OwnRanks {
 public:
  /// Forks a guard; call it while the process has one thread. `mark` is the value of TUTTI_STARTER in the ranks.
  OwnRanks(const std::string& mark, Channel& channel) : processes_(mark), channel_(channel) {}

  /// Starts the ranks job.here. Returns why one cannot be started; the others then still run.
  std::optional<Trouble> start(const Job& job);
  /// Sends a signal to all running ranks.
  void signal(int signal) { processes_.signal(signal); }
  /// Data for rank 0's stdin; empty: its end.
  void input(const std::string& text);
  /// Notes that so many bytes of a stream were written, or with -1 that its reader has gone.
  void taken(std::int32_t stream, std::int64_t bytes);

  /// Appends the descriptors to poll for; serve() gets them back.
  void watch(std::vector<pollfd>& entries) const;
  void serve(std::span<const pollfd> entries);
  /// When tell_stops() has something to tell.
  Deadline next_look() const { return processes_.next_look(); }
  void tell_stops();
  /// Takes note of what `status` from waitpid() says of `pid`.
  void reaped(pid_t pid, int status);

  /// Kills what the ranks have left behind. `others` are children of this process that are no ranks.
  void finish(const std::vector<pid_t>& others);
  /// True while output may still arrive; after finish().
  bool talking() const;
  Guard& guard() { return processes_.guard(); }

 private:
  struct Stream {
    std::int32_t subject = 0;
    Descriptor source;
    std::size_t credit = stream_window;
  };

  std::string start_rank(const Job& job, int rank, int input);
  Stream* stream_of(std::int32_t subject);
  void forward(Stream& stream);
  void forward_input();

  Processes processes_;
  Channel& channel_;
  std::vector<int> ranks_;      ///< ascending; of the streams, two for each
  std::deque<Stream> streams_;  ///< from the ranks to the launcher
  Descriptor input_;            ///< pipe to rank 0
  ByteQueue input_text_;
  bool input_ends_ = false, finished_ = false;
};

}  // namespace tutti::tools
