// Text of other processes and hosts, made fit to be printed in a line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// `text` with control characters written as \n, \t or \x1b, so that it can neither break a line nor command a
/// terminal, and cut, with "..." at its end, if it is longer than `longest`. UTF-8 is left as it is.
inline std::string printable(std::string_view text, std::size_t longest = 1000) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7f) {
      shown += c;
    } else if (c == '\n' || c == '\t') {
      shown += c == '\n' ? "\\n" : "\\t";
    } else {
      shown += "\\x";
      shown += digits[byte >> 4];
      shown += digits[byte & 15];
    }
  }
  return text.size() > longest ? shown + "..." : shown;
}

}  // namespace tutti
