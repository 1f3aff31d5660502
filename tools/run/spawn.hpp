// Starting one rank.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Owns a descriptor that a rank inherits. A Descriptor cannot be used: the fork guard would close it in the child.
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
  int input = -1;     ///< becomes stdin
  int output = -1;    ///< becomes stdout; -1: the launcher's
  int error = -1;     ///< becomes stderr; -1: the launcher's
  int recorder = -1;  ///< stays open in the process under this number; -1: none
  int core = -1;      ///< the only core that the process may use; -1: the launcher's cores
};

/// Raises this process's limit on descriptors as far as permitted. Processes by spawn() get the old limit, or what a
/// host with `ranks` ranks needs: a rank holds two descriptors for every other rank while they connect.
void raise_descriptor_limit(int ranks);
/// Returns a clause why this process cannot have `more` descriptors besides the few that it needs itself; empty if it
/// can.
std::string too_few_descriptors(std::size_t more);

/// Forks and executes a process in a process group of its own, with the signals of reset_signals(). The kernel kills it
/// when this process ends. /bin/sh runs a text file without an interpreter line. Returns the pid, or -errno if the file
/// could not be executed; why_not_executed() explains that.
pid_t spawn(const RankProcess& process);

}  // namespace tutti::tools
