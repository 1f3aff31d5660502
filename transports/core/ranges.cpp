#include "transports/core/ranges.hpp"

namespace tutti {

std::string ranges(std::span<const int> numbers, std::string_view separator, std::size_t shortest) {
  std::string text;
  for (std::size_t i = 0, last = 0; i < numbers.size(); i = last + 1) {
    for (last = i; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    if (last - i + 1 < shortest) last = i;
    text += (text.empty() ? std::string() : std::string(separator)) + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
  }
  return text;
}

std::string ranks_text(std::span<const int> ranks) { return (ranks.size() == 1 ? "rank " : "ranks ") + ranges(ranks); }

}  // namespace tutti
