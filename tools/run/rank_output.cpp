// Splits a stream into lines.
#include "tools/run/rank_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::tools {
namespace {

// An incomplete line is shown after `for_eyes` seconds on a terminal, after `for_programs` in a pipe, and never in a
// file before the stream ends. Other streams then wait at most `to_be_ended` seconds for the line's end.
constexpr Seconds for_eyes(0.2), for_programs(0.5), to_be_ended(2);

constexpr int most_blocks = 32;  // that the end of a stream has; a pipe has no more room unless a process enlarges it

void unblock(const Descriptor& source) { fcntl(source.fd(), F_SETFL, fcntl(source.fd(), F_GETFL) | O_NONBLOCK); }

}  // namespace

std::string rank_tag(int rank) { return "[" + std::to_string(rank) + "] "; }

/// Returns the end of the line that continues at `from`; npos if it has not arrived. If a carriage return is the last
/// character, the end has not arrived, since a newline may follow.
std::size_t RankLines::line_end(std::size_t from) const noexcept {
  if (!sink_.is_terminal()) {
    const std::size_t newline = pending_.find('\n', from);
    return newline == std::string::npos ? newline : newline + 1;
  }
  const std::size_t at = pending_.find_first_of("\r\n", from);
  if (at == std::string::npos || pending_[at] == '\n') return at == std::string::npos ? at : at + 1;
  if (at + 1 == pending_.size()) return std::string::npos;
  return pending_[at + 1] == '\n' ? at + 2 : at + 1;
}

/// Returns a part of the pending text, with the tag unless the part continues a line.
std::string RankLines::piece(std::size_t from, std::size_t size, bool inside) const {
  return (inside ? std::string() : tag_) + pending_.substr(from, size);
}

void RankLines::put(std::string_view text) {
  pending_ += text;
  changed_ = Clock::now();
  kept_back_ = sink_.kept_from(this) > changed_;
  if (!kept_back_) write_lines();
}

void RankLines::write_lines() {
  std::string out;
  std::size_t start = 0;
  bool inside = sink_.is_inside_line_of(this);
  for (std::size_t look = scanned_;;) {
    const std::size_t end = line_end(std::max(look, start));
    const std::size_t size = (end == std::string::npos ? pending_.size() : end) - start;
    if (size > longest) {
      out += piece(start, longest, inside) + (tag_.empty() ? "" : "\n");
      inside = tag_.empty();
      look = start += longest;
    } else if (end != std::string::npos) {
      out += piece(start, size, inside);
      inside = false;
      look = start = end;
    } else {
      break;
    }
  }
  pending_.erase(0, start);
  scanned_ = pending_.ends_with('\r') ? pending_.size() - 1 : pending_.size();
  sink_.put(out, this, deadline_in(to_be_ended));
}

/// Writes the incomplete line to the sink. Other streams wait until `kept` for its end.
void RankLines::write_rest(Deadline kept) {
  if (!pending_.empty()) sink_.put(piece(0, pending_.size(), sink_.is_inside_line_of(this)), this, kept);
  pending_.clear();
  scanned_ = 0;
}

void RankLines::end() {
  kept_back_ = false;
  write_lines();
  write_rest(Deadline::min());
  if (!tag_.empty() && sink_.is_inside_line_of(this)) sink_.put("\n", this);
}

Deadline RankLines::due() const noexcept {
  if (pending_.empty() || (sink_.is_file() && !kept_back_)) return never;
  const Deadline kept = sink_.kept_from(this);
  if (kept_back_) return kept;
  return std::max(
      kept, changed_ + std::chrono::duration_cast<Clock::duration>(sink_.is_terminal() ? for_eyes : for_programs));
}

void RankLines::flush_if_due(Deadline now) {
  if (now < due()) return;
  if (std::exchange(kept_back_, false)) write_lines();
  if (now >= due()) write_rest(deadline_in(to_be_ended));
}

RankOutput::RankOutput(Descriptor source, Sink& sink, int rank, bool tagged)
    : rank_(rank), source_(std::move(source)), lines_(sink, tagged ? rank_tag(rank) : std::string()) {
  unblock(source_);
}

void RankOutput::reopen(Descriptor source) {
  for (int i = 0; i < most_blocks && open() && pump();) ++i;  // also if the sink is full, since it would be lost
  lines_.end();
  source_ = std::move(source);
  unblock(source_);
}

bool RankOutput::pump() {
  char block[65536];
  ssize_t n = 0;
  while ((n = read(source_.fd(), block, sizeof block)) < 0 && errno == EINTR) {
  }
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) {  // reading a pseudo-terminal that no process holds open fails with EIO
    close();
    return false;
  }
  lines_.put(std::string_view(block, static_cast<std::size_t>(n)));
  if (lines_.sink().reader_gone()) source_.reset();  // the rank gets SIGPIPE, as it would without the launcher
  return true;
}

void RankOutput::pump_rest() {
  for (int i = 0; i < most_blocks && may_read() && pump();) ++i;
  lines_.end();
}

void RankOutput::close() {
  source_.reset();
  lines_.end();
}

}  // namespace tutti::tools
