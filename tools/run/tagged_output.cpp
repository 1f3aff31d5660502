// Splits a stream into lines and prefixes each with the rank.
#include "tools/run/tagged_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::tools {

std::string rank_tag(int rank) { return "[" + std::to_string(rank) + "] "; }

void TaggedLines::put(std::string_view text) {
  if (tag_.empty()) return sink_.put(text);
  pending_ += text;
  write_lines(false);
}

void TaggedLines::write_lines(bool all) {
  std::string out;
  std::size_t start = 0;
  const auto line = [&](std::size_t size, std::string_view end) {
    out += tag_ + pending_.substr(start, size) + std::string(end);
    start += size;
  };
  for (;;) {
    const std::size_t newline = pending_.find('\n', start);
    const std::size_t size = (newline == std::string::npos ? pending_.size() : newline) - start;
    if (size > longest)
      line(longest, "\n");
    else if (newline != std::string::npos)
      line(size + 1, "");
    else
      break;
  }
  if (all && start < pending_.size()) line(pending_.size() - start, "\n");
  pending_.erase(0, start);
  sink_.put(out);
}

TaggedOutput::TaggedOutput(Descriptor source, Sink& sink, int rank)
    : source_(std::move(source)), lines_(sink, rank_tag(rank)) {
  fcntl(source_.fd(), F_SETFL, fcntl(source_.fd(), F_GETFL) | O_NONBLOCK);
}

bool TaggedOutput::pump() {
  char block[65536];
  ssize_t n = 0;
  while ((n = read(source_.fd(), block, sizeof block)) < 0 && errno == EINTR) {
  }
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) {
    close();
    return false;
  }
  lines_.put(std::string_view(block, static_cast<std::size_t>(n)));
  if (lines_.sink().broken()) source_.reset();  // the rank gets SIGPIPE, as it would without the launcher
  return true;
}

void TaggedOutput::close() {
  source_.reset();
  lines_.end();
}

}  // namespace tutti::tools
