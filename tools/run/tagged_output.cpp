// Cuts a stream into lines and puts the rank in front of each.
#include "tools/run/tagged_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::tools {
namespace {

/// False where nobody reads any more.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd entry = {fd, POLLOUT, 0};
      poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

TaggedOutput::TaggedOutput(Descriptor source, int target, int rank)
    : source_(std::move(source)), target_(target), tag_("[" + std::to_string(rank) + "] ") {
  fcntl(source_.fd(), F_SETFL, fcntl(source_.fd(), F_GETFL) | O_NONBLOCK);
}

void TaggedOutput::pump() {
  char block[65536];
  const ssize_t n = read(source_.fd(), block, sizeof block);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    source_.reset();
    write_lines(true);
  } else {
    const std::string_view fresh(block, static_cast<std::size_t>(n));
    pending_.append(fresh);
    if (fresh.find('\n') != std::string_view::npos) write_lines(false);
  }
}

void TaggedOutput::finish() {
  while (open()) {
    pollfd entry = {fd(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 1) {
      pump();
    } else {
      source_.reset();
      write_lines(true);
    }
  }
}

void TaggedOutput::write_lines(bool all) {
  std::string out;
  std::size_t start = 0;
  for (std::size_t end; (end = pending_.find('\n', start)) != std::string::npos; start = end + 1)
    out += tag_ + pending_.substr(start, end + 1 - start);
  pending_.erase(0, start);
  if (all && !pending_.empty()) {
    out += tag_ + pending_ + "\n";
    pending_.clear();
  }
  if (!write_all(target_, out)) source_.reset();  // the rank learns by SIGPIPE, as it would without us
}

}  // namespace tutti::tools
