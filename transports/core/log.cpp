// Formats each log line in one buffer, so that lines of several ranks do not mix.
#include "tutti/log.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "transports/core/printable.hpp"

namespace tutti {
namespace {

std::atomic<LogLevel> threshold{LogLevel::warn};

constexpr std::array<std::string_view, 5> level_names = {"off", "error", "warn", "info", "debug"};

// Maximum length of a line; longer text is cut.
constexpr std::size_t longest_line = 2048;

/// As write(2) to stderr, but if stderr is a full pipe, fails with EAGAIN and does not wait for the reader.
ssize_t write_now(const char* text, std::size_t length) noexcept {
  struct stat about {};
  if (::fstat(STDERR_FILENO, &about) == 0 && S_ISFIFO(about.st_mode)) {
    iovec all{const_cast<char*>(text), length};
    const ssize_t wrote = ::pwritev2(STDERR_FILENO, &all, 1, -1, RWF_NOWAIT);
    if (wrote >= 0 || errno == EAGAIN || errno == EINTR || errno == EPIPE) return wrote;
    // The kernel, or a sandbox, does not know the call or the flag. If another process fills the pipe between poll()
    // and write(), then write() blocks.
    pollfd stderr_now{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&stderr_now, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
  }
  return ::write(STDERR_FILENO, text, length);
}

std::atomic<std::uint64_t> left_out{0};  // lines left out because stderr was not read in time

/// Writes the line by one write(), unless stderr takes only a part. Returns false if there was no room for the line.
bool write_line(std::string_view head, std::string_view text) noexcept {
  char line[longest_line];
  std::memcpy(line, head.data(), head.size());
  const std::size_t room = std::min(text.size(), sizeof(line) - head.size() - 1);
  if (room > 0) std::memcpy(line + head.size(), text.data(), room);
  std::size_t length = head.size() + room;
  std::replace(line + head.size(), line + length, '\n', ' ');
  make_printable(line + head.size(), room);  // a line may quote what others sent
  line[length++] = '\n';

  const int saved = errno;
  for (const char* next = line; length > 0;) {
    const ssize_t wrote = write_now(next, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      errno = saved;
      return false;
    }
    if (wrote <= 0) break;  // stderr is closed: an error cannot be reported
    next += wrote;
    length -= static_cast<std::size_t>(wrote);
  }
  errno = saved;
  return true;
}

/// As write_line(), after a line with the number of lines left out before. Counts the line if there is no room for it.
void write_or_count(std::string_view head, std::string_view text) noexcept {
  const std::uint64_t before = left_out.exchange(0, std::memory_order_relaxed);
  bool room = true;
  if (before > 0) {
    char note[96];
    const int noted = std::snprintf(note, sizeof note, "%llu lines were left out, as stderr was not read in time",
                                    static_cast<unsigned long long>(before));
    room = write_line(head, {note, static_cast<std::size_t>(noted)});
    if (!room) left_out.fetch_add(before, std::memory_order_relaxed);
  }
  if (!room || !write_line(head, text)) left_out.fetch_add(1, std::memory_order_relaxed);
}

using Handler = std::function<void(LogLevel, std::string_view)>;

/// Never destroyed: threads that outlive main() may log.
struct Handlers {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::shared_ptr<const Handler> handler;  // guarded by `mutex`
};
Handlers& handlers() {
  static auto* const all = new Handlers;
  return *all;
}

/// Passes the line to the handler; returns false if none is set.
bool hand_over(LogLevel level, std::string_view text, int rank) noexcept {
  Handlers& all = handlers();
  if (!all.any.load(std::memory_order_relaxed)) return false;
  try {
    std::shared_ptr<const Handler> handler;
    {
      const std::lock_guard lock(all.mutex);
      handler = all.handler;
    }
    if (!handler) return false;
    (*handler)(level, rank < 0 ? std::string(text) : "[rank " + std::to_string(rank) + "] " + std::string(text));
  } catch (...) {  // an error cannot be reported
  }
  return true;
}

}  // namespace

void set_log_handler(std::function<void(LogLevel, std::string_view)> handler) {
  auto next = handler ? std::make_shared<const Handler>(std::move(handler)) : nullptr;
  Handlers& all = handlers();
  const std::lock_guard lock(all.mutex);
  all.any = next != nullptr;
  all.handler.swap(next);  // the old handler is destroyed after the mutex is released
}

void set_log_level(LogLevel level) noexcept { threshold.store(level, std::memory_order_relaxed); }

LogLevel log_level() noexcept { return threshold.load(std::memory_order_relaxed); }

std::optional<LogLevel> parse_log_level(std::string_view text) noexcept {
  const auto found = std::find(level_names.begin(), level_names.end(), text);
  if (found == level_names.end()) return std::nullopt;
  return static_cast<LogLevel>(found - level_names.begin());
}

void log(LogLevel level, std::string_view text, int rank) noexcept {
  if (level == LogLevel::off || level > log_level()) return;
  if (hand_over(level, text, rank)) return;
  const std::string_view label = level == LogLevel::warn ? "warning" : level_names[static_cast<std::size_t>(level)];
  char head[64];
  const int length = rank >= 0 ? std::snprintf(head, sizeof(head), "tutti [rank %d] %s: ", rank, label.data())
                               : std::snprintf(head, sizeof(head), "tutti %s: ", label.data());
  write_or_count({head, static_cast<std::size_t>(length)}, text);
}

void say(std::string_view text) noexcept {
  if (!hand_over(LogLevel::info, text, -1)) write_or_count("tutti: ", text);
}

}  // namespace tutti
