// One thing that `tutti doctor --host` has looked at, and how all of them are printed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::tools {

struct Check {
  enum class Verdict { good, slower, wrong };

  Verdict verdict = Verdict::good;
  std::string what;    ///< "open files"
  std::string found;   ///< what was measured or read here, in plain words
  std::string advice;  ///< one sentence that says what to do next; empty if it is good
};

/// "good", "slower", "wrong".
std::string_view name(Check::Verdict verdict) noexcept;

/// The checks as a table, the advice below each of them, and a last line that counts them.
std::string checks_text(std::span<const Check> checks);

/// The checks as a JSON array of objects with "check", "verdict", "found" and "advice".
std::string checks_json(std::span<const Check> checks);

}  // namespace tutti::tools
