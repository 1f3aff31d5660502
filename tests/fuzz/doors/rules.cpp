// Rules that choose algorithms: those of the user, and the file of those that `tutti tune` has measured.
#include "collectives/route/rules.hpp"

#include "collectives/route/selector.hpp"
#include "tests/fuzz/door.hpp"
#include "tutti/settings.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  static const Settings settings;
  static const std::vector<std::string> backends{"shm", "tcp"};
  const Known known{backends, settings};
  bool lines = false;
  for (const Rule& rule : rules::parse_leniently(text_of(input), "some.rules", known, [](int, std::string_view) {})) {
    lines = true;
    expect(!refuses([&] { parse_rules(to_string(rule), "its text", known); }), "not read: " + to_string(rule));
  }
  return !refuses([&] { parse_rules(text_of(input), "some.rules", known); }) || lines;
}

}  // namespace tutti::fuzz
