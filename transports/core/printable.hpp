// Text of other processes and hosts, made fit to be printed in a line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// The length of the character at the beginning of `text`, which is not empty, if it can be printed: 0 for control
/// characters, also those of the upper half (U+0080 to U+009F), and for bytes that are no UTF-8.
inline std::size_t printable_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= ' ' && byte(0) != 0x7f ? 1 : 0;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return byte(0) == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

/// Replaces what cannot be printed in `text` by '?', a byte each.
inline void make_printable(char* text, std::size_t length) noexcept {
  for (std::size_t i = 0; i < length;) {
    const std::size_t good = printable_length({text + i, length - i});
    if (good == 0) text[i] = '?';
    i += good > 0 ? good : 1;
  }
}

/// `text` with what cannot be printed written as \n, \t or \x1b, so that it can neither break a line nor command a
/// terminal, and cut, with "..." at its end, if it is longer than `longest`.
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
