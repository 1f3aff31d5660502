// Sink: stdout or stderr of the launcher, written without waiting for its reader.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "transports/core/byte_queue.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {

/// Writes without blocking and queues the rest. put() does not enforce `bound`; callers that can wait check full().
class Sink {
 public:
  static constexpr std::size_t bound = 1 << 20;

  explicit Sink(int fd);

  /// Queues `text` and writes as much as possible without blocking. Has no effect after a write has failed. If the last
  /// line is incomplete and another writer's, begins a new line first. nullptr as the writer means the launcher itself.
  /// Other writers should wait until `kept` for the end of this line.
  void put(std::string_view text, const void* writer = nullptr, Deadline kept = Deadline::min());
  /// True if the last line is incomplete and `writer` wrote it.
  bool is_inside_line_of(const void* writer) const noexcept { return inside_ && writer == writer_; }
  /// The time until which `writer` should wait for the end of another writer's line.
  Deadline kept_from(const void* writer) const noexcept {
    return inside_ && writer != writer_ ? kept_ : Deadline::min();
  }
  /// Writes as much as possible without blocking. Returns true if anything was written.
  bool flush();

  bool pending() const noexcept { return !queue_.empty(); }
  bool full() const noexcept { return queue_.size() >= bound; }
  /// True once the reader has gone.
  bool reader_gone() const noexcept { return error_ == EPIPE || error_ == ECONNRESET; }
  /// The errno of a write that failed for another reason, such as a full disk; 0 if none did. Later text is dropped.
  int lost() const noexcept { return reader_gone() ? 0 : error_; }
  bool is_terminal() const noexcept { return terminal_; }
  /// True for an ordinary file.
  bool is_file() const noexcept { return way_ == Way::file; }
  /// The descriptor to poll for POLLOUT while something is pending.
  int fd() const noexcept { return own_ ? own_.fd() : fd_; }

 private:
  ssize_t write_some(std::string_view text);

  const int fd_;
  /// a second open of the same pipe or terminal, since O_NONBLOCK on fd_ would affect other processes
  Descriptor own_;
  enum class Way { own, socket, file, careful } way_ = Way::careful;
  bool terminal_ = false;
  ByteQueue queue_;
  const void* writer_ = nullptr;  ///< writer of the last text
  bool inside_ = false;           ///< the last line is incomplete
  Deadline kept_ = Deadline::min();
  int error_ = 0;  ///< errno of the write that failed
};

/// Returns true if both descriptors refer to the same file, pipe or terminal.
bool same_file(int one, int other) noexcept;

}  // namespace tutti::tools
