// Texts in JSON.
#pragma once

#include <string>
#include <string_view>

#include "transports/core/printable.hpp"

namespace tutti::tools {

/// `text` in quotes. Control characters become text such as \n, and the middle of a very long one is left out.
inline std::string json_text(std::string_view text) {
  constexpr std::size_t most = 4000;
  std::string all = "\"";
  for (const char c : printable(text, most)) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

}  // namespace tutti::tools
