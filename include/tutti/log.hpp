// Log lines to stderr, by level. stdout belongs to the program and is never written to.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace tutti {

enum class LogLevel : int { off, error, warn, info, debug };

/// The bootstrap and every new context set the level to the setting `log` (TUTTI_LOG, default warn).
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

/// Parses "off", "error", "warn", "info" or "debug"; returns nullopt for any other text.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

/// Sends later lines to `handler` instead of stderr, without the level and "tutti", but with "[rank 3] " if they
/// concern a rank; lines from say() arrive as info. An empty handler restores stderr. The handler may be called from
/// any of the library's threads, several at a time, and must not call the library; its exceptions are dropped. The
/// previous handler may still be running when this returns.
void set_log_handler(std::function<void(LogLevel, std::string_view)> handler);

/// Writes the line "tutti: text" at every level, for output that the user asked for.
void say(std::string_view text) noexcept;

/// Writes the line "tutti [rank 3] warning: text" with one write(2). `rank` -1 omits the rank. Never blocks: if stderr
/// is a full pipe, the line is dropped, and the next line that can be written is preceded by one with the number of
/// dropped lines.
void log(LogLevel level, std::string_view text, int rank = -1) noexcept;

}  // namespace tutti
