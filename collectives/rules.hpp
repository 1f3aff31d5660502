// The text of selection rules: reading and writing it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/selector.hpp"

namespace tutti::rules {

/// Without the blanks at both ends.
std::string_view trim(std::string_view text) noexcept;

/// The non-empty parts between separators, trimmed.
std::vector<std::string_view> words(std::string_view text, char separator);

/// As parse_rules(), but what cannot be read, or names what is not here, is passed over with a line in the log:
/// for files that another installation wrote. A line from '#' on is a comment.
std::vector<Rule> parse_leniently(std::string_view text, std::string_view source,
                                  std::span<const std::string> backends);

}  // namespace tutti::rules
