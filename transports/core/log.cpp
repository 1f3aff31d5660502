// Log lines: composed in one buffer, so that lines of several ranks do not mix.
#include "transports/core/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tutti {
namespace {

std::atomic<LogLevel> threshold{LogLevel::warn};

constexpr std::array<std::string_view, 5> level_names = {"off", "error", "warn", "info", "debug"};

// How much text one line takes at most; longer text is cut.
constexpr std::size_t longest_line = 2048;

}  // namespace

void set_log_level(LogLevel level) noexcept { threshold.store(level, std::memory_order_relaxed); }

LogLevel log_level() noexcept { return threshold.load(std::memory_order_relaxed); }

std::optional<LogLevel> parse_log_level(std::string_view text) noexcept {
  const auto found = std::find(level_names.begin(), level_names.end(), text);
  if (found == level_names.end()) return std::nullopt;
  return static_cast<LogLevel>(found - level_names.begin());
}

void log(LogLevel level, std::string_view text, int rank) noexcept {
  if (level == LogLevel::off || level > log_level()) return;
  const std::string_view label = level == LogLevel::warn ? "warning" : level_names[static_cast<std::size_t>(level)];
  char line[longest_line];
  const int head = rank >= 0 ? std::snprintf(line, sizeof(line), "tutti [rank %d] %s: ", rank, label.data())
                             : std::snprintf(line, sizeof(line), "tutti %s: ", label.data());
  auto length = static_cast<std::size_t>(head);
  const std::size_t room = std::min(text.size(), sizeof(line) - length - 1);
  if (room > 0) std::memcpy(line + length, text.data(), room);
  std::replace(line + length, line + length + room, '\n', ' ');
  length += room;
  line[length++] = '\n';

  const int saved = errno;
  for (const char* next = line; length > 0;) {
    const ssize_t wrote = ::write(STDERR_FILENO, next, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;  // nobody listens: there is nowhere to say so
    next += wrote;
    length -= static_cast<std::size_t>(wrote);
  }
  errno = saved;
}

}  // namespace tutti
