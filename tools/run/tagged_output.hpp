// Output of the ranks, line by line with the rank as a prefix.
#pragma once

#include <string>
#include <string_view>

#include "tools/run/sink.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// One stream of one rank. Complete lines go to the sink at once. The end of the stream completes its last line, and a
/// line longer than `longest` is cut into several.
class TaggedLines {
 public:
  static constexpr std::size_t longest = 64 << 10;

  /// `sink` must outlive this. With an empty tag the text is passed on unchanged.
  TaggedLines(Sink& sink, std::string tag) : sink_(sink), tag_(std::move(tag)) {}

  void put(std::string_view text);
  void end() { write_lines(true); }
  Sink& sink() const noexcept { return sink_; }

 private:
  void write_lines(bool all);

  Sink& sink_;
  const std::string tag_;
  std::string pending_;
};

/// The prefix, for example "[3] ".
std::string rank_tag(int rank);

/// TaggedLines that are read from a pipe.
class TaggedOutput {
 public:
  /// `source` is the read end of a pipe; `sink` must outlive this.
  TaggedOutput(Descriptor source, Sink& sink, int rank);

  int fd() const noexcept { return source_.fd(); }
  bool open() const noexcept { return static_cast<bool>(source_); }
  /// True if more may be read. While the sink is full the pipe is not read, so that the rank blocks.
  bool may_read() const noexcept { return open() && !lines_.sink().full(); }
  /// Reads once and writes the complete lines. Closes at the end of the pipe, or if the sink is broken. Returns true if
  /// anything was read.
  bool pump();
  /// Writes pending text and closes; for a pipe that has no writers left.
  void close();

 private:
  Descriptor source_;
  TaggedLines lines_;
};

}  // namespace tutti::tools
