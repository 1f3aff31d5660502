// Descriptor: owns a file descriptor, closed by its destructor and in every forked child. It is never 0, 1 or 2: else,
// if a program has closed its standard descriptors, its output would go into the library's files and memory.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tutti/fork.hpp"

namespace tutti {

/// Owns `fd`. If `fd` is 0, 1 or 2, closes it and owns a duplicate. Owns nothing (-1) if `fd` is negative or cannot be
/// duplicated, with the reason in errno. Registered with the fork guard on construction.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) : fd_(beyond_standard(fd)) {
    if (fd_ >= 0) fork_guard_add(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  /// Closes the descriptor, except in a forked child, where the fork guard has closed it already.
  void reset() noexcept {
    if (fd_ >= 0 && fork_guard_remove(fd_)) ::close(fd_);
    fd_ = -1;
  }

  int fd() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  static int beyond_standard(int fd) noexcept {
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    ::close(fd);
    errno = error;
    return moved;
  }

  int fd_ = -1;
};

}  // namespace tutti
