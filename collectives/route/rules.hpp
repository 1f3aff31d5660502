// Parsing and printing of selection rules.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/route/selector.hpp"

namespace tutti::rules {

/// `text` without leading and trailing blanks.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts of `text` between separators, each trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// Called for each skipped line, with its number from 1 and the reason.
using Unread = std::function<void(int line, std::string_view why)>;

/// As parse_rules(), but skips lines that cannot be parsed or that name an unknown backend: for files written by
/// another installation. '#' starts a comment.
std::vector<Rule> parse_leniently(std::string_view text, std::string_view source, std::span<const std::string> backends,
                                  const Unread& unread);

}  // namespace tutti::rules
