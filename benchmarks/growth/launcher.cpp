// The launcher: how many hosts a process of its tree starts, and how high the tree is.
#include <algorithm>

#include "benchmarks/growth/law.hpp"
#include "tools/run/tree.hpp"

namespace tutti::growth {
namespace {

using tools::Branch;

const auto fan_out = static_cast<std::size_t>(tools::Job().fan_out);  // the default of --fan-out

/// The most hosts that one process starts: the process that starts `parts`, or any process below it.
std::size_t most_children(const std::vector<Branch>& parts) {
  std::size_t most = parts.size();
  for (const Branch& part : parts)
    if (part.count > 1) most = std::max(most, most_children(tools::split(part.first + 1, part.count - 1, fan_out)));
  return most;
}

}  // namespace

std::vector<Law> launcher_laws() {
  const std::vector<std::int64_t> hosts = {64, 1024, 8192, 65536};
  return {
      {"launcher", "hosts that a process starts itself, by hosts", How::function, hosts,
       [](std::int64_t n) {
         return static_cast<double>(most_children(tools::split(0, static_cast<std::size_t>(n), fan_out)));
       },
       0, 32},
      {"launcher", "remote starts after one another, by hosts", How::function, hosts,
       [](std::int64_t n) {
         const auto parts = tools::split(0, static_cast<std::size_t>(n), fan_out);
         int levels = 0;
         for (const Branch& part : parts) levels = std::max(levels, tools::height(part.count, fan_out));
         return static_cast<double>(levels);
       },
       0.1, 4},
  };
}

}  // namespace tutti::growth
