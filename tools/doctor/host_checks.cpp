#include "tools/doctor/host_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/between.hpp"
#include "tools/doctor/measurements.hpp"
#include "tools/run/hosts.hpp"

namespace tutti::tools {

std::vector<Check> check_host(const Settings& settings) {
  std::vector<Check> all;
  for (std::vector<Check>& group :
       std::vector<std::vector<Check>>{core_checks(), clock_checks(), process_checks(), memory_checks(settings),
                                       network_checks(settings), device_checks(settings)})
    std::ranges::move(group, std::back_inserter(all));
  return all;
}

void print_checks(std::FILE* to, std::span<const Check> checks, bool json) {
  fmt::print(to, "{}", json ? checks_json(checks) : checks_text(checks));
}

std::vector<std::string> split_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    hosts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return hosts;
}

int run_host_checks(const std::vector<std::string>& hosts, bool json, const Settings& settings) {
  for (const std::string& host : hosts) parse_hosts(host);  // refuses what is no name before anything is started
  std::vector<Check> all = check_host(settings);
  for (const std::string& host : hosts) std::ranges::move(checks_with(host, settings), std::back_inserter(all));
  print_checks(stdout, all, json);
  return std::ranges::any_of(all, [](const Check& one) { return one.verdict == Check::Verdict::wrong; }) ? 1 : 0;
}

}  // namespace tutti::tools
