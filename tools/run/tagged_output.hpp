// Output of the ranks, line by line with the rank in front.
#pragma once

#include <string>

#include "tools/run/sink.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// One stream of one rank. Whole lines go to the sink at once; what stands after the last newline is written as a line
/// when the stream ends, and a line longer than `longest` in parts, as several lines.
class TaggedOutput {
 public:
  static constexpr std::size_t longest = 64 << 10;

  /// `source` is the reading end of a pipe; `sink` outlives this.
  TaggedOutput(Descriptor source, Sink& sink, int rank);

  int fd() const noexcept { return source_.fd(); }
  bool open() const noexcept { return static_cast<bool>(source_); }
  /// Something more may be read: while the sink is full, the rank has to wait.
  bool may_read() const noexcept { return open() && !sink_.full(); }
  /// Reads what is there, once; writes the lines that are whole. At the end, or where nobody reads the sink any more,
  /// closes. Returns whether anything came.
  bool pump();
  /// Writes out what is pending, and closes: nobody is left who would write.
  void close();

 private:
  void write_lines(bool all);

  Descriptor source_;
  Sink& sink_;
  const std::string tag_;
  std::string pending_;
};

}  // namespace tutti::tools
