// Log lines to stderr, by level. Never stdout, which belongs to the program.
#pragma once

#include <optional>
#include <string_view>

namespace tutti {

enum class LogLevel : int { off, error, warn, info, debug };

/// Set from TUTTI_LOG (default warn) when the first context is made.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

/// "off", "error", "warn", "info" or "debug"; nullopt for any other text.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

/// One line "tutti: text" at every level: what the user asked to be told.
void say(std::string_view text) noexcept;

/// One line "tutti [rank 3] warning: text", written by one write(2). `rank` -1 leaves the rank out.
void log(LogLevel level, std::string_view text, int rank = -1) noexcept;

}  // namespace tutti
