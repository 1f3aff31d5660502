// Lists of numbers as ranges: "0-3, 7, 8".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// `numbers` in ascending order; `shortest` or more consecutive ones become a range.
std::string ranges(std::span<const int> numbers, std::string_view separator = ", ", std::size_t shortest = 3);

/// "rank 3", "ranks 0-2, 7, 8".
std::string ranks_text(std::span<const int> ranks);

}  // namespace tutti
