// Descriptor: owns a file descriptor, closed by its destructor and in every forked child.
#pragma once

#include <unistd.h>

#include <utility>

#include "tutti/fork.hpp"

namespace tutti {

/// Owns `fd`, or nothing (-1). Registered with the fork guard on construction.
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

  /// Closes the descriptor, except in a forked child, where the fork guard has closed it already.
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
