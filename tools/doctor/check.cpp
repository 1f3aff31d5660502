#include "tools/doctor/check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/json.hpp"
#include "transports/core/printable.hpp"

namespace tutti::tools {
namespace {

std::ptrdiff_t count(std::span<const Check> checks, Check::Verdict verdict) {
  return std::ranges::count(checks, verdict, &Check::verdict);
}

}  // namespace

std::string_view name(Check::Verdict verdict) noexcept {
  return verdict == Check::Verdict::good ? "good" : verdict == Check::Verdict::slower ? "slower" : "wrong";
}

std::string checks_text(std::span<const Check> checks) {
  std::size_t width = 5;
  for (const Check& check : checks) width = std::max(width, check.what.size());
  std::string text = fmt::format("{:<7} {:<{}}  {}\n", "verdict", "check", width, "found here");
  for (const Check& check : checks) {
    text += fmt::format("{:<7} {:<{}}  {}\n", name(check.verdict), check.what, width, printable(check.found));
    if (!check.advice.empty()) text += fmt::format("{:<7} {:<{}}  -> {}\n", "", "", width, printable(check.advice));
  }
  return text + fmt::format("\n{} checks: {} good, {} slower, {} wrong\n", checks.size(),
                            count(checks, Check::Verdict::good), count(checks, Check::Verdict::slower),
                            count(checks, Check::Verdict::wrong));
}

std::string checks_json(std::span<const Check> checks) {
  std::string text = "[";
  for (const Check& check : checks)
    text += fmt::format("{}\n  {{\"check\": {}, \"verdict\": \"{}\", \"found\": {}, \"advice\": {}}}",
                        text.size() > 1 ? "," : "", json_text(check.what), name(check.verdict), json_text(check.found),
                        json_text(check.advice));
  return text + "\n]\n";
}

}  // namespace tutti::tools
