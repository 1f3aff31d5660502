// Limits, counters and error texts shared by all stores.
#include "collectives/bootstrap/store_rules.hpp"

#include <charconv>
#include <cstdio>

#include "transports/core/ranges.hpp"

namespace tutti::store_rules {

std::string shown(std::string_view key) {
  constexpr std::size_t longest_shown = 80;
  std::string text = "'";
  for (const char c : key.substr(0, longest_shown)) {
    if (c >= 0x20 && c < 0x7f) {
      text += c;
      continue;
    }
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += hex;
  }
  if (key.size() > longest_shown) text += "...";
  return text + "'";
}

void check(std::string_view key, std::string_view value) {
  if (key.size() > longest_key)
    throw Error(Code::invalid, "the key " + shown(key) + " has " + std::to_string(key.size()) +
                                   " bytes; a store takes keys of up to " + std::to_string(longest_key));
  if (value.size() > longest_value)
    throw Error(Code::invalid, "the value for key " + shown(key) + " has " + std::to_string(value.size()) +
                                   " bytes; a store takes up to " + std::to_string(longest_value) +
                                   ": send more than that through a communicator");
}

std::int64_t added(std::string_view text, std::int64_t amount, std::string_view key, std::string_view place) {
  std::int64_t value = 0;
  if (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw Error(Code::invalid, "key " + shown(key) + " in " + std::string(place) +
                                     " holds something other than a counter; use a key of its own for add()");
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, amount, &sum))
    throw Error(Code::invalid, "the counter " + shown(key) + " in " + std::string(place) + " would overflow");
  return sum;
}

Error timed_out(std::string_view key, std::string_view place, Deadline started) {
  char waited[32];
  std::snprintf(waited, sizeof waited, "%.3g s", Seconds(Clock::now() - started).count());
  return Error(Code::timeout, std::string("waited ") + waited + " for key " + shown(key) + " in " + std::string(place) +
                                  ": has every rank started? Raise TUTTI_CONNECT_TIMEOUT if they start slowly");
}

Error departed(std::string_view why) {
  int rank = -1;
  const char* const end = why.data() + why.size();
  const char* at = std::from_chars(why.data(), end, rank).ptr;
  if (at != end) ++at;
  return Error(Code::peer_lost,
               std::string(at, end) +
                   " before it joined the others, who wait for it: see what it printed. Every rank of the job has to "
                   "make its communicator (Communicator::from_env()); start fewer ranks if some have nothing to do",
               rank);
}

Error not_joined(std::span<const int> ranks, double patience) {
  char waited[32];
  std::snprintf(waited, sizeof waited, "%.3g s", patience);
  return Error(Code::timeout,
               ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + " not joined the others in " + waited +
                   ": see whether all ranks started and what they printed. Every rank of the job has to make its "
                   "communicator (Communicator::from_env()); raise TUTTI_CONNECT_TIMEOUT if they start slowly",
               ranks.front());
}

}  // namespace tutti::store_rules
