// Makes text from other processes and hosts printable in one line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// The length in bytes of the first character of `text`, which must not be empty; 0 if it cannot be printed. That is so
/// for control characters, U+0080 to U+009F included, and for bytes that are not UTF-8.
inline std::size_t printable_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= ' ' && byte(0) != 0x7f ? 1 : 0;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return byte(0) == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

/// Replaces each byte of `text` that cannot be printed by '?'.
inline void make_printable(char* text, std::size_t length) noexcept {
  for (std::size_t i = 0; i < length;) {
    const std::size_t good = printable_length({text + i, length - i});
    if (good == 0) text[i] = '?';
    i += good > 0 ? good : 1;
  }
}

/// Returns `text` with bytes that cannot be printed written as \n, \t or \x1b, so that they can neither break a line
/// nor control a terminal. If `text` is longer than `longest` bytes, cuts it and appends "...".
inline std::string printable(std::string_view text, std::size_t longest = 1000) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (std::size_t i = 0; i < std::min(text.size(), longest);) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t good = printable_length(text.substr(i));
    if (good > 0) {
      shown += text.substr(i, good);
    } else if (c == '\n' || c == '\t') {
      shown += c == '\n' ? "\\n" : "\\t";
    } else {
      shown += "\\x";
      shown += digits[byte >> 4];
      shown += digits[byte & 15];
    }
    i += good > 0 ? good : 1;
  }
  return text.size() > longest ? shown + "..." : shown;
}

}  // namespace tutti
