// Quotes words of command lines that are printed for the user to copy.
#pragma once

#include <string>

namespace tutti::tools {

/// Returns `text` as one word of a POSIX shell, in single quotes if necessary.
inline std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Returns a path as one word that is not taken for a flag.
inline std::string shell_path(const std::string& path) {
  return shell_word(path.starts_with('-') ? "./" + path : path);
}

}  // namespace tutti::tools
