#include "tools/run/sink.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tutti::tools {

Sink::Sink(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return;
  if (S_ISSOCK(status.st_mode)) {
    way_ = Way::socket;
  } else if (S_ISREG(status.st_mode)) {
    way_ = Way::file;
  } else {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    own_ = Descriptor(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own_) way_ = Way::own;
  }
}

ssize_t Sink::write_some(std::string_view text) {
  if (way_ == Way::own) return write(own_.fd(), text.data(), text.size());
  if (way_ == Way::socket) return ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == Way::file) return write(fd_, text.data(), text.size());
  // A pipe that is writable according to poll() has room for PIPE_BUF bytes.
  pollfd entry = {fd_, POLLOUT, 0};
  if (poll(&entry, 1, 0) == 1) return write(fd_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
  errno = EAGAIN;
  return -1;
}

void Sink::put(std::string_view text, const void* writer, Deadline kept) {
  if (error_ != 0 || text.empty()) return;
  if (inside_ && writer != writer_ && text.front() != '\r') queue_.append("\n");
  queue_.append(text);
  writer_ = writer;
  kept_ = kept;
  inside_ = text.back() != '\n' && text.back() != '\r';
  flush();
}

bool Sink::flush() {
  const std::size_t before = queue_.size();
  while (!queue_.empty()) {
    const ssize_t n = write_some(queue_.view());
    if (n >= 0) {
      queue_.drop(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
      queue_.clear();
    }
  }
  return queue_.size() < before;
}

bool same_file(int one, int other) noexcept {
  struct stat a = {}, b = {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace tutti::tools
