// Names of failure codes, and construction of causes.
#include "tutti/status.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {

std::string_view name(Code code) noexcept {
  constexpr std::string_view names[] = {"ok",          "peer_lost", "mismatch", "timeout",  "aborted",
                                        "unsupported", "invalid",   "resource", "protocol", "internal"};
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(names) ? names[index] : "unknown";  // a code may come from another version
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

}  // namespace tutti
