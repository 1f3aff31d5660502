// OwnRanks: the ranks on an agent's own host.
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

/// Starts and watches the ranks of this host. Queues messages to the launcher in the channel; the caller flushes it.
class OwnRanks {
 public:
  /// Forks a guard; call it while the process has one thread. `mark` is the value of TUTTI_STARTER in the ranks.
  OwnRanks(const std::string& mark, Channel& channel) : processes_(mark), channel_(channel) {}

  /// Starts the ranks job.here. If one cannot be started, returns why; ranks that were started before still run.
  std::optional<Trouble> start(const Job& job);
  /// Starts a process in the place of a rank that has ended; no effect for any other rank. `number` is the value of its
  /// TUTTI_JOIN.
  void restart(const Job& job, int rank, int number);
  /// Sends a signal to all running ranks.
  void signal(int signal) { processes_.signal(signal); }
  /// Passes data to rank 0's stdin; an empty text closes it.
  void input(const std::string& text);
  /// Notes that the launcher has written `bytes` bytes of a stream; -1: the stream's reader has gone.
  void taken(std::int32_t stream, std::int64_t bytes);

  /// watch() appends the descriptors to poll for. serve() handles these entries after poll().
  void watch(std::vector<pollfd>& entries) const;
  void serve(std::span<const pollfd> entries);
  /// The time when tell_stops() should be called, because it can then report ranks that a signal has stopped.
  Deadline next_look() const { return processes_.next_look(); }
  void tell_stops();
  /// Handles `status`, which waitpid() returned for `pid`.
  void reaped(pid_t pid, int status);

  /// Kills the processes that the ranks have left behind. `others` are children of this process that are no ranks.
  void finish(const std::vector<pid_t>& others);
  /// Returns true while output may still arrive; call it after finish().
  bool talking() const;
  Guard& guard() { return processes_.guard(); }
  /// The descriptor of the memory into which the ranks record their calls; -1: each rank has its own.
  int recorder() const noexcept { return processes_.recorder(); }

 private:
  struct Stream {
    std::int32_t subject = 0;
    Descriptor source;
    std::size_t credit = stream_window;
    ByteQueue kept = {};       ///< what the process before has written, if there was no credit for it
    bool reader_gone = false;  ///< the launcher's output has no reader any more
  };

  std::string start_rank(const Job& job, int rank, int input);
  std::string start_process(const Job& job, int rank, int join, int input);
  Stream* stream_of(std::int32_t subject);
  static void replace_source(Stream& stream, Descriptor source);
  void forward(Stream& stream);
  void forward_input();

  Processes processes_;
  Channel& channel_;
  std::vector<int> ranks_;      ///< ascending; each rank has two streams
  std::deque<Stream> streams_;  ///< output from the ranks to the launcher
  Descriptor input_;            ///< pipe to rank 0
  ByteQueue input_text_;
  bool input_ends_ = false, finished_ = false;
};

}  // namespace tutti::tools
