// Limits, counters and error texts shared by all stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tutti/status.hpp"
#include "tutti/store.hpp"

namespace tutti::store_rules {

inline constexpr std::size_t longest_key = 1024;
inline constexpr std::size_t longest_value = std::size_t{1} << 20;

/// Formats a key for an error text: printable, quoted, and cut to 80 characters.
std::string shown(std::string_view key);

/// Throws Error{invalid} if the key or the value is too long.
void check(std::string_view key, std::string_view value = {});

/// The counter in `text` plus `amount`. Throws Error{invalid} if `text` is not a counter ("" is 0) or the sum
/// overflows.
std::int64_t added(std::string_view text, std::int64_t amount, std::string_view key, std::string_view place);

/// The error that wait() throws at its deadline.
Error timed_out(std::string_view key, std::string_view place, Deadline started);

/// The error of a wait for a rank that has ended. `why` is a value of departure_text().
Error departed(std::string_view why);

/// The error of a rank that has waited `patience` seconds for `ranks`, which are in ascending order and not empty.
Error not_joined(std::span<const int> ranks, double patience);

}  // namespace tutti::store_rules
