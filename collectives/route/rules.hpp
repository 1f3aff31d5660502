// The text of selection rules: reading and writing it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/route/selector.hpp"

namespace tutti::rules {

/// Without the blanks at both ends.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts between separators, trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// Hears which line of a text, from 1, was passed over, and why.
using Unread = std::function<void(int line, std::string_view why)>;

/// As parse_rules(), but what cannot be read, or names what is not here, is passed over: for files that another
/// installation wrote. A line from '#' on is a comment.
std::vector<Rule> parse_leniently(std::string_view text, std::string_view source, std::span<const std::string> backends,
                                  const Unread& unread);

}  // namespace tutti::rules
