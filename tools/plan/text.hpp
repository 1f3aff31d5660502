// Text: times, bytes and counts as text for people.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::planning {

std::string time_text(double seconds);      ///< "12.3 us", "4.56 ms", "1.2 s"
std::string bytes_text(std::size_t bytes);  ///< "8 B", "1.5 KiB", "64 MiB"
std::string count_text(std::size_t count);  ///< "131,070"
std::string ratio_text(double ratio);       ///< "1.12", "2,524"

/// "1 rank", "2 ranks", "131,070 ranks".
std::string plural(std::size_t count, std::string_view one);

/// "bruck, linear, ring".
std::string listed(std::span<const std::string_view> names);

}  // namespace tutti::planning
