// Descriptor: owns a file descriptor, which is closed with it and in every forked child.
#pragma once

#include <unistd.h>

#include <utility>

#include "transports/core/fork.hpp"

namespace tutti {

/// Owns `fd`, or nothing (-1). Guarded against forks from construction on.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) : fd_(fd) {
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

  /// Closes it, unless this is a forked child, in which it is closed already.
  void reset() noexcept {
    if (fd_ >= 0 && fork_guard_remove(fd_)) ::close(fd_);
    fd_ = -1;
  }

  int fd() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace tutti
