// The value of a setting: a line is KEY VALUE.
#include "tutti/settings.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const std::string_view line = text_of(input);
  const std::size_t end = line.find(' ');
  if (end == line.npos) return false;
  Settings settings;
  return !refuses([&] { settings.set(line.substr(0, end), line.substr(end + 1), "the fuzzer"); });
}

}  // namespace tutti::fuzz
