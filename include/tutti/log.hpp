// Log lines to stderr, by level. stdout belongs to the program and is never written to.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace tutti {

enum class LogLevel : int { off, error, warn, info, debug };

/// The level is set from TUTTI_LOG (default warn) when the first context is made.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

/// "off", "error", "warn", "info" or "debug"; nullopt for any other text.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

/// Sends later lines to `handler` instead of stderr, without the level and "tutti", but with "[rank 3] " if they
/// concern a rank; lines from say() arrive as info. An empty handler restores stderr. The handler may be called from
/// any of the library's threads, several at a time, and must not call the library; its exceptions are dropped. The
/// previous handler may still be running when this returns.
void set_log_handler(std::function<void(LogLevel, std::string_view)> handler);

/// Writes the line "tutti: text" at every level, for output that the user asked for.
void say(std::string_view text) noexcept;

/// Writes the line "tutti [rank 3] warning: text" with one write(2). `rank` -1 omits the rank. Where stderr is a pipe
/// that is full, the line is left out, and the next one that is written says how many were: a rank never waits for who
/// reads.
void log(LogLevel level, std::string_view text, int rank = -1) noexcept;

}  // namespace tutti
