// Common parts of pictures: colours, text, and names beside lines.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::plot {

/// Colours that colour-blind readers can tell apart, with enough contrast on white and on black pages (after Okabe and
/// Ito).
inline constexpr std::array<const char*, 8> colours_on_any = {"#0f7fc4", "#d55e00", "#009e73", "#cc6699",
                                                              "#b8860b", "#7f6fd0", "#808080", "#2aa5b8"};
/// The colour of text and axes, visible on white and black pages.
inline constexpr const char* ink_on_any = "#7a828c";

/// Returns the text without control characters; replaces &, <, > and " by XML entities.
std::string escaped(std::string_view text);

/// Returns positions for names whose lines end at `wanted`: at least `gap` apart, between `least` and `most`.
std::vector<double> moved_apart(std::span<const double> wanted, double least, double most, double gap);

}  // namespace tutti::plot
