#include "tools/run/tree.hpp"

#include <algorithm>

#include "tools/run/addresses.hpp"

namespace tutti::tools {

std::size_t order_hosts(std::vector<Host>& hosts) {
  const auto others =
      std::stable_partition(hosts.begin(), hosts.end(), [](const Host& host) { return is_this_host(host.name); });
  return static_cast<std::size_t>(others - hosts.begin());
}

std::vector<Branch> split(std::size_t first, std::size_t count, std::size_t most, std::size_t leaves) {
  std::vector<Branch> branches;
  for (std::size_t i = 0; i < leaves; ++i) branches.push_back({first + i, 1});
  const std::size_t rest = count - leaves, room = most > leaves ? most - leaves : 1;
  const std::size_t parts = std::min(rest, room);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = rest * i / parts, end = rest * (i + 1) / parts;
    branches.push_back({first + leaves + begin, end - begin});
  }
  return branches;
}

int height(std::size_t count, std::size_t most) {
  int levels = 0;
  for (; count > 0; ++levels) {  // continues with the largest branch
    const std::size_t rest = count - 1;
    count = (rest + most - 1) / most;
  }
  return levels;
}

std::size_t starter(const Branch& branch, std::size_t host, std::size_t most) {
  for (const Branch& next : split(branch.first + 1, branch.count - 1, most)) {
    if (host == next.first) break;
    if (host < next.end()) return starter(next, host, most);
  }
  return branch.first;
}

}  // namespace tutti::tools
