// Output of the ranks, line by line with the rank in front.
#pragma once

#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// One stream of one rank. Whole lines go out in one write; a line is never split, and what stands after the last
/// newline is written as a line when the stream ends.
class TaggedOutput {
 public:
  /// `source` is the reading end of a pipe, `target` a descriptor of this process.
  TaggedOutput(Descriptor source, int target, int rank);

  int fd() const noexcept { return source_.fd(); }
  bool open() const noexcept { return static_cast<bool>(source_); }
  /// Reads what is there, once; writes the lines that are whole. At the end, or where nobody reads the target any more,
  /// closes.
  void pump();
  /// Reads until the pipe is empty, and closes.
  void finish();

 private:
  void write_lines(bool all);

  Descriptor source_;
  const int target_;
  const std::string tag_;
  std::string pending_;
};

}  // namespace tutti::tools
