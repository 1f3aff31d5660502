// SLURM's lists of hosts and of tasks.
#include "collectives/bootstrap/membership.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const std::string text(text_of(input));
  int tasks = 0;
  refuses([&] {
    for (const int node : {0, 3, 1000}) tasks = std::max(tasks, launchers::tasks_on_node(text, node));
  });
  return !refuses([&] { launchers::expand_hosts(text); }) || tasks > 0;
}

}  // namespace tutti::fuzz
