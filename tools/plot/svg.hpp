// What pictures share: colours, text, and names beside lines.
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
/// For text and axes on such pages.
inline constexpr const char* ink_on_any = "#7a828c";

/// Without what has a meaning in XML, and without control characters.
std::string escaped(std::string_view text);

/// The places of names whose lines end at `wanted`, moved apart by `gap` between `least` and `most`.
std::vector<double> moved_apart(std::span<const double> wanted, double least, double most, double gap);

}  // namespace tutti::plot
