// Channel: the messages between an agent and the process that has started it, the launcher or another agent, over stdin
// and stdout of the remote start command. A message about or to a rank passes as many channels as there are remote
// starts on the way.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/byte_queue.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

enum class Say : std::uint8_t {
  // sent to the agent
  job,     ///< text: the job, in the format of job_text.hpp
  go,      ///< start the ranks
  signal,  ///< number: a signal to send to all ranks
  input,   ///< text: data for rank 0's stdin; empty: end of file
  taken,   ///< subject: stream; number: bytes of the stream that were written, or -1 if its reader has gone
  end,     ///< all ranks of the job have ended: kill what they left, send the remaining output, then goodbye
  // sent by the agent
  ready,     ///< the program and the store were found on its host and on all hosts below
  refused,   ///< subject: host; number: exit code; text: why the ranks cannot be started there
  started,   ///< subject: rank; number: pid
  output,    ///< subject: stream; text: output of a rank; empty: end of the stream
  consumed,  ///< number: bytes of input that were written to rank 0, or -1 if it has closed its stdin
  ended,     ///< subject: rank; number: status from waitpid(); text: what its records say of its end; may be empty
  goodbye,   ///< nothing is left on its host and on those below
  // sent by both: a heartbeat
  alive,
  // sent by the agent
  stopped,  ///< subject: rank that has been stopped for a while; number: the signal
  lost,     ///< subject: host below it; number: how many hosts are lost, including this one; text: why
  // about what the doctor asks, see consultations.hpp
  clock,     ///< to the agent, number: a stamp. It answers at once: subject: host; number: the stamp; text: its time
  ask,       ///< to the agent, number: of the question; subject: how many calls of each rank are wanted
  patient,   ///< by the agent, subject: rank; number: of the question; text: a letter about the rank
  examined,  ///< by the agent, subject: host; number: of the question; all letters about its ranks have been sent
  host,      ///< by the launcher to the doctor, subject: host; text: a letter about it
  // about replacements of ranks that have ended
  restart,    ///< to the agent, subject: rank; number: the value of TUTTI_JOIN. It answers by started or unstarted
  unstarted,  ///< by the agent, subject: rank; number: exit code; text: why the replacement cannot be started
};
inline constexpr Say last_say = Say::unstarted;

/// One message. `subject` is a rank; a host, by its place in the tree's order (tree.hpp); or a stream: twice the rank,
/// plus one for stderr.
struct Frame {
  Say say = Say::alive;
  std::int32_t subject = 0;
  std::int64_t number = 0;
  std::string text;
};

/// The number of bytes of a stream, or of rank 0's input, that may be sent before the receiver acknowledges them.
inline constexpr std::size_t stream_window = 128 << 10;

/// Counts for the channels of this process: reads, reads that got no data, and wake-ups from waiting.
struct Reads {
  std::uint64_t all = 0, in_vain = 0, wakes = 0;
};
Reads& reads() noexcept;

class Channel {
 public:
  /// Makes the descriptors non-blocking. If `out` is empty, `in` is a socket for both directions. `greeting` is the
  /// start of the other side's first line. Anything that arrives before that line, such as the output of a login shell,
  /// is discarded. If `greeting` is empty, no greeting is expected.
  Channel(Descriptor in, Descriptor out, std::string greeting);

  /// Queues a frame and writes as much as possible without blocking. Has no effect once writing has failed.
  void say(const Frame& frame) {
    queue(frame);
    flush();
  }
  /// Queues a frame. The next flush() writes all queued frames at once.
  void queue(const Frame& frame);
  /// Queues `text` without a frame around it.
  void greet(std::string_view text);
  void flush();
  /// Reads the data that have arrived, without blocking. Returns false once the other side has closed the channel.
  bool receive();
  /// Returns the next complete frame, or nothing. Throws Error{protocol} for a malformed frame, and if more than 1 MiB
  /// arrives without a greeting.
  std::optional<Frame> next();
  /// The rest of the greeting's line, once the line has arrived.
  const std::optional<std::string>& greeted() const noexcept { return greeted_; }

  /// Appends two entries to poll for.
  void watch(std::vector<pollfd>& entries) const;
  bool pending() const noexcept { return !out_text_.empty(); }
  /// The descriptor to read from; if `out` is empty, also to write to.
  int fd() const noexcept { return in_.fd(); }
  /// The time when something was last received.
  Deadline heard() const noexcept { return heard_; }
  void hear_anew() noexcept { heard_ = Clock::now(); }
  void close_output() noexcept { writable_ = false; }

 private:
  bool find_greeting();
  int out_fd() const noexcept { return out_ ? out_.fd() : in_.fd(); }

  Descriptor in_, out_;
  bool ended_ = false, writable_ = true;
  const std::string greeting_;
  std::optional<std::string> greeted_;
  ByteQueue in_text_, out_text_;
  std::size_t discarded_ = 0;  ///< bytes that arrived before the greeting
  std::string printed_;        ///< the first of these bytes
  Deadline heard_ = Clock::now();
};

/// The start of an agent's first line. The agent's version follows.
inline constexpr std::string_view agent_greeting = "\x02tutti agent ";

}  // namespace tutti::tools
