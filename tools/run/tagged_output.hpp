// Output of the ranks, line by line with the rank in front.
#pragma once

#include <string>
#include <string_view>

#include "tools/run/sink.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// What one stream of one rank says. Whole lines go to the sink at once; what stands after the last newline is written
/// as a line when the stream ends, and a line longer than `longest` in parts, as several lines.
class TaggedLines {
 public:
  static constexpr std::size_t longest = 64 << 10;

  /// `sink` outlives this. With an empty tag everything goes through as it is.
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

/// "[3] ".
std::string rank_tag(int rank);

/// TaggedLines from a pipe.
class TaggedOutput {
 public:
  /// `source` is the reading end of a pipe; `sink` outlives this.
  TaggedOutput(Descriptor source, Sink& sink, int rank);

  int fd() const noexcept { return source_.fd(); }
  bool open() const noexcept { return static_cast<bool>(source_); }
  /// Something more may be read: while the sink is full, the rank has to wait.
  bool may_read() const noexcept { return open() && !lines_.sink().full(); }
  /// Reads what is there, once; writes the lines that are whole. At the end, or where nobody reads the sink any more,
  /// closes. Returns whether anything came.
  bool pump();
  /// Writes out what is pending, and closes: nobody is left who would write.
  void close();

 private:
  Descriptor source_;
  TaggedLines lines_;
};

}  // namespace tutti::tools
