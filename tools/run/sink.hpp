// Sink: stdout or stderr of the launcher, written without waiting for its reader.
#pragma once

#include <string>
#include <string_view>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {

/// Queues text that cannot be written yet. put() does not enforce `bound`; callers that can wait ask full() first.
class Sink {
 public:
  static constexpr std::size_t bound = 1 << 20;

  explicit Sink(int fd);

  /// Queues `text` and writes as much as possible without blocking. Has no effect on a broken sink.
  void put(std::string_view text);
  /// Writes as much as possible without blocking. Returns true if anything was written.
  bool flush();

  bool pending() const noexcept { return !queue_.empty(); }
  bool full() const noexcept { return queue_.size() >= bound; }
  /// True once a write has failed: the reader has gone, or the disk is full.
  bool broken() const noexcept { return broken_; }
  /// The descriptor to poll for POLLOUT while something is pending.
  int fd() const noexcept { return own_ ? own_.fd() : fd_; }

 private:
  ssize_t write_some(std::string_view text);

  const int fd_;
  /// a second open of the same pipe or terminal, since O_NONBLOCK on fd_ would affect other processes
  Descriptor own_;
  enum class Way { own, socket, file, careful } way_ = Way::careful;
  std::string queue_;
  bool broken_ = false;
};

/// True if both refer to the same file, pipe or terminal.
bool same_file(int one, int other) noexcept;

}  // namespace tutti::tools
