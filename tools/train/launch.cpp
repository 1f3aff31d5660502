#include "tools/train/launch.hpp"

#include <fmt/core.h>

#include "tools/shell.hpp"
#include "transports/core/link_shape.hpp"

namespace tutti::tools {

std::string launch_of(const Communicator& world, const std::string& net) {
  const std::string train = "tutti train" + (net.empty() ? "" : " --net " + shell_word(net));
  const Topology topology = world.topology();
  const Hosts& hosts = topology.hosts();
  if (world.size() == 1) return train;
  if (hosts.count() == 1) return fmt::format("{} -np {}", train, world.size());
  std::string list;
  for (int host = 0; host < hosts.count(); ++host)
    list +=
        fmt::format("{}{}:{}", list.empty() ? "" : ",", topology[hosts[host].front()].host_name, hosts[host].size());
  return fmt::format("tutti run --hosts {} {}", shell_word(list), train);
}

std::vector<std::string> without_ranks(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "-np" || arguments[i] == "--np")
      ++i;
    else if (!arguments[i].starts_with("--np="))
      rest.push_back(arguments[i]);
  }
  return rest;
}

Settings settings_of(const std::string& net) {
  Settings settings = Settings::from_environment();
  if (!net.empty()) settings.set("net", net, "flag");
  return settings;
}

std::string link_of(const Settings& settings) {
  if (settings.net.empty()) return {};
  const LinkShape shape = parse_link_shape(settings.net);
  if (shape.latency.count() == 0 || shape.bits_per_second == 0) return {};
  return fmt::format("{}us,{}gbit", 1e-3 * static_cast<double>(shape.latency.count()), 1e-9 * shape.bits_per_second);
}

std::string net_of(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--net=")) return arguments[i].substr(6);
    if (arguments[i] == "--net" && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return {};
}

}  // namespace tutti::tools
