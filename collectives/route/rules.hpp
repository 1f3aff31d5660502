// Parsing and printing of selection rules.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/route/selector.hpp"

namespace tutti::rules {

/// The backend for device memory by way of the host. It exists in every communicator, like the built-in plans.
inline constexpr std::string_view staged = "staged";

/// `text` without leading and trailing blanks.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts of `text` between separators, each trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// Called for each skipped line, with its number from 1 and the reason.
using Unread = std::function<void(int line, std::string_view why)>;

/// As parse_rules(), but skips lines that cannot be parsed or that name an unknown backend: for files written by
/// another installation. '#' starts a comment.
std::vector<Rule> parse_leniently(std::string_view text, std::string_view source, const Known& known,
                                  const Unread& unread);

/// Throws Error{invalid} if the target's backend does not have its algorithm for the kind (nullopt: for no kind), or
/// does not have the kind at all. Opens the backend's module if there is one; if it cannot be opened, nothing is
/// checked, and the communicators that name the backend say why it cannot be used.
void check_target(std::optional<Kind> kind, const Target& target, const Settings& settings);

}  // namespace tutti::rules
