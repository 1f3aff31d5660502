// Names of failure codes, and construction of causes and errors.
#include "tutti/status.hpp"

#include <algorithm>
#include <cstring>

#include "transports/core/printable.hpp"

namespace tutti {
namespace {

/// A message begins with what was wrong and ends with what to do, so a very long message is cut in the middle.
std::string line_of(const std::string& message) {
  constexpr std::size_t longest = 2000, kept_at_end = 600;
  constexpr std::string_view gap = " ... ";
  std::string line = printable(message, message.size());
  if (line.size() <= longest) return line;
  const auto inside = [&](std::size_t at) { return (static_cast<unsigned char>(line[at]) & 0xC0u) == 0x80u; };
  std::size_t begin = longest - kept_at_end - gap.size(), end = line.size() - kept_at_end;
  while (inside(begin)) --begin;  // no character is cut
  while (inside(end)) ++end;
  return line.replace(begin, end - begin, gap);
}

}  // namespace

std::string_view name(Code code) noexcept {
  constexpr std::string_view names[] = {"ok",          "peer_lost", "mismatch", "timeout",  "aborted",
                                        "unsupported", "invalid",   "resource", "protocol", "internal"};
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(names) ? names[index] : "unknown";  // a code may come from another version
}

Cause Cause::received(const void* bytes) noexcept {
  Cause why;
  std::memcpy(static_cast<void*>(&why), bytes, sizeof why);
  if (why.code == Code::ok || why.code > Code::internal) why.code = Code::protocol;
  why.culprit = std::max(why.culprit, -1);
  why.reporter = std::max(why.reporter, -1);
  const auto sound = [](char* text, std::size_t size) {
    text[size - 1] = '\0';
    make_printable(text, std::strlen(text));
  };
  sound(why.host, sizeof why.host);
  sound(why.text, sizeof why.text);
  return why;
}

void Cause::say(std::string_view sentence) noexcept {
  std::size_t length = std::min(sentence.size(), sizeof(text) - 1);
  if (length < sentence.size()) {
    // Never cuts a UTF-8 character in half: bytes 10xxxxxx continue one.
    while (length > 0 && (static_cast<unsigned char>(sentence[length]) & 0xC0u) == 0x80u) --length;
  }
  std::memset(text, 0, sizeof(text));
  if (length > 0) std::memcpy(text, sentence.data(), length);
}

Status Status::failure(Code code, std::string_view text, int culprit) {
  Cause cause;
  cause.code = code;
  cause.culprit = culprit;
  cause.say(text);
  return Status(cause);
}

Error::Error(Code code, const std::string& message, int culprit)
    : std::runtime_error(line_of(message)), code_(code), culprit_(culprit) {}

}  // namespace tutti
