// The variables by which a launcher tells a process its rank, as lines NAME=VALUE.
#include <map>

#include "collectives/bootstrap/membership.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  std::map<std::string, std::string, std::less<>> variables;
  std::string_view rest = text_of(input);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (const std::size_t end = line.find('='); end != line.npos && end > 0)
      variables.emplace(line.substr(0, end), line.substr(end + 1));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  const launchers::Environment look_up = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  bool launched = false;
  refuses([&] {
    const launchers::Choice choice = launchers::choose_membership(look_up, true);
    const launchers::Membership& self = choice.membership;
    expect(self.size > 0 && self.rank >= 0 && self.rank < self.size, "a rank outside its job");
    expect(self.local_rank >= 0 && self.local_size > 0, "a rank outside its host");
    launched = self.launcher != launchers::Launcher::alone;
  });
  return launched;
}

}  // namespace tutti::fuzz
