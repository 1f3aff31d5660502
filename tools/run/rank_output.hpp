// Output of the ranks: writes whole lines of one rank at a time, with the rank as a prefix if the user asks for it.
#pragma once

#include <string>
#include <string_view>

#include "tools/run/sink.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

/// One stream of one rank. Complete lines go to the sink at once. An incomplete line goes to the sink when its stream
/// ends, or when it is longer than `longest`. If the sink is not a file, it also goes there when nothing has been added
/// for a moment, since somebody may wait for a prompt or a progress bar. Other streams then wait a short time for the
/// line's end; the first that writes afterwards begins a new line. On a terminal a carriage return ends a line, too.
class RankLines {
 public:
  static constexpr std::size_t longest = 1 << 20;

  /// `sink` must outlive this object. The tag is put before every line; it may be empty.
  RankLines(Sink& sink, std::string tag) : sink_(sink), tag_(std::move(tag)) {}

  void put(std::string_view text);
  /// Writes the rest to the sink. If there is a tag, a last line without a newline gets one.
  void end();
  /// The time when flush_if_due() has to be called.
  Deadline due() const noexcept;
  void flush_if_due(Deadline now);
  Sink& sink() const noexcept { return sink_; }
  /// True while at least 64 KiB are kept back because of another stream's incomplete line.
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
  std::size_t scanned_ = 0;  ///< bytes of pending_ that were searched and have no line end
  bool kept_back_ = false;   ///< pending_ may have complete lines that wait for the end of another stream's line
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
  /// True if more may be read. Nothing is read while the sink is full, so that the rank blocks.
  bool may_read() const noexcept { return open() && !lines_.sink().full() && !lines_.full(); }
  /// Reads once and writes the complete lines. Closes at the end of the stream, or if the sink is broken. Returns true
  /// if anything was read.
  bool pump();
  /// Reads the output that an ended rank has left. Its descendants may still hold the stream open and write more.
  void pump_rest();
  /// Reads what an ended process has left, and from then on from `source`, for the process that comes after it.
  void reopen(Descriptor source);
  /// Writes the pending text and closes the stream. For a stream without writers.
  void close();

 private:
  const int rank_;
  Descriptor source_;
  RankLines lines_;
};

}  // namespace tutti::tools
