// Sink: stdout or stderr of the launcher, written to without ever waiting for who reads it.
#pragma once

#include <string>
#include <string_view>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Keeps what cannot be written yet. Nobody is made to stop at `bound`: who has more asks full() first.
class Sink {
 public:
  static constexpr std::size_t bound = 1 << 20;

  explicit Sink(int fd);

  /// Queues and writes what can be written now. Without effect on a broken sink.
  void put(std::string_view text);
  /// Writes what can be written now. Returns whether anything was.
  bool flush();

  bool pending() const noexcept { return !queue_.empty(); }
  bool full() const noexcept { return queue_.size() >= bound; }
  /// Nobody reads any more, or the disk is full.
  bool broken() const noexcept { return broken_; }
  /// To poll for POLLOUT while something is pending.
  int fd() const noexcept { return own_ ? own_.fd() : fd_; }

 private:
  ssize_t write_some(std::string_view text);

  const int fd_;
  Descriptor own_;  ///< the same pipe or terminal, opened once more: O_NONBLOCK on fd_ would be the others' too
  enum class Way { own, socket, file, careful } way_ = Way::careful;
  std::string queue_;
  bool broken_ = false;
};

/// Both write to one file, pipe or terminal.
bool same_file(int one, int other) noexcept;

}  // namespace tutti::tools
