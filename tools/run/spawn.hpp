// Starting one rank.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Owns a descriptor that a rank inherits. The fork guard would close a Descriptor in the child.
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
  int core = -1;    ///< the only core that the process may use; -1: those of the launcher
};

/// Raises this process's limit on descriptors as far as it may. Processes by spawn() get the limit that was before, or
/// what a host with so many ranks needs: a rank holds two descriptors for every other while they meet.
void raise_descriptor_limit(int ranks);
/// Why this process, beside the few that it needs itself, cannot have so many descriptors, as a clause; empty if it
/// can.
std::string too_few_descriptors(std::size_t more);

/// Forks and executes a process in a process group of its own, with the signals of reset_signals(); the kernel kills it
/// when this process ends. A text without an interpreter is run by /bin/sh. Returns its pid, or -errno if it could not
/// be executed; why_not_executed() explains that.
pid_t spawn(const RankProcess& process);

}  // namespace tutti::tools
