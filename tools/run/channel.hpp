// Channel: what the launcher and an agent say to each other, over the remote start's stdin and stdout.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

enum class Say : std::uint8_t {
  // by the launcher
  job,     ///< text: the job, see job_text.hpp
  go,      ///< start the ranks
  signal,  ///< number: a signal for all ranks
  input,   ///< text: for rank 0's stdin; empty: its end
  taken,   ///< stream, number: so many bytes of it are written; -1: nobody reads it any more
  end,     ///< the ranks of all hosts have ended: end what they left behind, say the rest and goodbye
  // by the agent
  ready,     ///< everything is there to start the ranks
  refused,   ///< number: exit code, text: why the ranks cannot be started
  started,   ///< rank, number: pid
  output,    ///< stream, text: what a rank has said; empty: the end of the stream
  consumed,  ///< number: so many bytes of input have reached rank 0; -1: it reads no more
  ended,     ///< rank, number: status of waitpid()
  goodbye,
  // by both
  alive,
};

/// `subject` is a rank, or a stream: twice the rank, and one more for stderr.
struct Frame {
  Say say = Say::alive;
  std::int32_t subject = 0;
  std::int64_t number = 0;
  std::string text;
};

/// Bytes of a stream, or of rank 0's input, that may be on their way at once.
inline constexpr std::size_t stream_window = 128 << 10;

class Channel {
 public:
  /// Both descriptors become non-blocking. `greeting`: what the other side says first; anything before it, such as what
  /// a login shell prints, is passed over.
  Channel(Descriptor in, Descriptor out, std::string greeting);

  /// Queues, and writes what can be written now. Without effect once broken.
  void say(const Frame& frame);
  /// As it is, without a frame around it.
  void greet(std::string_view text);
  void flush();
  /// Reads what is there. False once the other side has closed.
  bool receive();
  /// The next whole frame that was received. Throws Error{protocol} for what is none.
  std::optional<Frame> next();
  /// The rest of the greeting's line, once it has been seen.
  const std::optional<std::string>& greeted() const noexcept { return greeted_; }

  /// Appends what to poll for: two entries.
  void watch(std::vector<pollfd>& entries) const;
  bool pending() const noexcept { return !out_text_.empty(); }
  bool open() const noexcept { return static_cast<bool>(in_); }
  /// When something was heard last.
  Deadline heard() const noexcept { return heard_; }
  void hear_anew() noexcept { heard_ = Clock::now(); }
  void close_output() noexcept { out_.reset(); }

 private:
  bool find_greeting();

  Descriptor in_, out_;
  const std::string greeting_;
  std::optional<std::string> greeted_;
  std::string in_text_, out_text_;
  std::size_t in_done_ = 0;  ///< bytes of in_text_ that next() has handed out
  Deadline heard_ = Clock::now();
};

/// What an agent says first; its version follows, and a newline.
inline constexpr std::string_view agent_greeting = "\x02tutti agent ";

}  // namespace tutti::tools
