// What all stores share: limits, counters, and how their errors read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "transports/core/status.hpp"
#include "transports/core/store.hpp"

namespace tutti::store_rules {

inline constexpr std::size_t longest_key = 1024;
inline constexpr std::size_t longest_value = std::size_t{1} << 20;

/// The key for a message: printable, in quotes, cut when long.
std::string shown(std::string_view key);

/// Throws Error{invalid} where the key or the value is too long.
void check(std::string_view key, std::string_view value = {});

/// The counter's text plus `amount`. Throws Error{invalid} where `text` is not a counter ("" is 0) or overflows.
std::int64_t added(std::string_view text, std::int64_t amount, std::string_view key, std::string_view place);

/// What wait() throws at its deadline.
Error timed_out(std::string_view key, std::string_view place, Deadline started);

}  // namespace tutti::store_rules
