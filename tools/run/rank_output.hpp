// Output of the ranks, in whole lines of one rank at a time, with the rank as a prefix if asked for.
#pragma once

#include <string>
#include <string_view>

#include "tools/run/sink.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

/// One stream of one rank. Complete lines go to the sink at once. An incomplete one goes when its stream ends, when it
/// is longer than `longest`, or, where somebody may wait for it (a prompt, a progress bar), when nothing has been added
/// to it for a moment. Other streams then wait for its end, though not long: whoever writes first afterwards begins a
/// new line. On a terminal a carriage return ends a line, too.
class RankLines {
 public:
  static constexpr std::size_t longest = 1 << 20;

  /// `sink` must outlive this. The tag is put in front of every line; it may be empty.
  RankLines(Sink& sink, std::string tag) : sink_(sink), tag_(std::move(tag)) {}

  void put(std::string_view text);
  /// Passes on what is left. With a tag, a last line without a newline gets one.
  void end();
  /// When flush_if_due() is to be called.
  Deadline due() const noexcept;
  void flush_if_due(Deadline now);
  Sink& sink() const noexcept { return sink_; }
  /// True while much is kept back because of another stream's line.
  bool full() const noexcept { return kept_back_ && pending_.size() >= most_kept_back; }

 private:
  static constexpr std::size_t most_kept_back = 64 << 10;

  void write_lines();
  void write_rest(Deadline kept);
  std::size_t line_end(std::size_t from) const noexcept;
  std::string piece(std::size_t from, std::size_t size, bool inside) const;

  Sink& sink_;
  const std::string tag_;
  std::string pending_;
  std::size_t scanned_ = 0;  ///< bytes of it that have been looked at and have no line end
  bool kept_back_ = false;   ///< whether it may have complete lines, which wait for another stream's line
  Deadline changed_ = never;
};

/// The prefix, for example "[3] ".
std::string rank_tag(int rank);

/// RankLines that are read from a pipe or a terminal.
class RankOutput {
 public:
  /// `source` is the read end; `sink` must outlive this.
  RankOutput(Descriptor source, Sink& sink, int rank, bool tagged);

  int rank() const noexcept { return rank_; }
  int fd() const noexcept { return source_.fd(); }
  bool open() const noexcept { return static_cast<bool>(source_); }
  RankLines& lines() noexcept { return lines_; }
  const RankLines& lines() const noexcept { return lines_; }
  /// True if more may be read. While the sink is full nothing is read, so that the rank blocks.
  bool may_read() const noexcept { return open() && !lines_.sink().full() && !lines_.full(); }
  /// Reads once and writes the complete lines. Closes at the end of the stream, or if the sink is broken. Returns true
  /// if anything was read.
  bool pump();
  /// Reads what a rank that has ended has left, although its descendants may keep the stream open and write more.
  void pump_rest();
  /// Writes pending text and closes; for a stream that has no writers left.
  void close();

 private:
  const int rank_;
  Descriptor source_;
  RankLines lines_;
};

}  // namespace tutti::tools
