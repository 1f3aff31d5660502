// Starts one rank.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Owns a descriptor that a rank is to inherit; a Descriptor would be closed in it.
class Inherited {
 public:
  explicit Inherited(int fd = -1) noexcept : fd_(fd) {}
  Inherited(Inherited&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Inherited& operator=(Inherited&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Inherited() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

struct RankProcess {
  std::string file;
  std::vector<std::string> words;
  std::vector<std::string> environment;
  int input = -1;   ///< becomes stdin
  int output = -1;  ///< becomes stdout; -1: the launcher's
  int error = -1;   ///< becomes stderr; -1: the launcher's
  sigset_t mask;    ///< of signals
  int core = -1;    ///< the only one that it may use; -1: the launcher's
};

/// Forks and executes in a process group of its own that dies with this process. Returns its pid, or -errno
/// where it could not be executed.
pid_t spawn(const RankProcess& process);

}  // namespace tutti::tools
