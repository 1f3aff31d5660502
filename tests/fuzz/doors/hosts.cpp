// Lists of hosts, on the command line and in a file.
#include "tools/run/hosts.hpp"

#include "tests/fuzz/door.hpp"
#include "tools/run/job.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  const auto file = file_with(input, ".hosts");
  const bool is_file = !refuses([&] { tools::read_hostfile(file.string()); });
  const bool is_list = !refuses([&] {
    std::vector<tools::Host> hosts = tools::parse_hosts(text_of(input));
    const int ranks = tools::place_ranks(hosts, 0);
    std::size_t placed = 0;
    for (const tools::Host& host : hosts) placed += host.ranks.size();
    expect(placed == static_cast<std::size_t>(ranks), "a rank without a host");
  });
  return is_file || is_list;
}

}  // namespace tutti::fuzz
