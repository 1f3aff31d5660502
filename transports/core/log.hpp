// Log lines to stderr, by level. Never stdout, which belongs to the program.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace tutti {

enum class LogLevel : int { off, error, warn, info, debug };

/// Set from TUTTI_LOG (default warn) when the first context is made.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

/// "off", "error", "warn", "info" or "debug"; nullopt for any other text.
std::optional<LogLevel> parse_log_level(std::string_view text) noexcept;

/// From here on lines go to `handler` instead of stderr, without their label and the "tutti", but with "[rank 3] "
/// where they are of a rank; what say() says comes as info. Empty: stderr again. It may be called from any of the
/// library's threads, several at a time, and must not call the library; what it throws is dropped. The last one may
/// still run when this returns.
void set_log_handler(std::function<void(LogLevel, std::string_view)> handler);

/// One line "tutti: text" at every level: what the user asked to be told.
void say(std::string_view text) noexcept;

/// One line "tutti [rank 3] warning: text", written by one write(2). `rank` -1 leaves the rank out.
void log(LogLevel level, std::string_view text, int rank = -1) noexcept;

}  // namespace tutti
