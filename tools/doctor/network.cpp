// Checks of the network as tcp sees it, of RDMA devices and of GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "collectives/bootstrap/socket.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/measurements.hpp"
#include "tools/doctor/verdicts.hpp"
#include "transports/addresses.hpp"
#include "transports/core/host.hpp"
#include "tutti/clock.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tools {
namespace {

using enum Check::Verdict;

/// The interfaces that tcp may use, each with its addresses, its MTU and its speed.
std::vector<Check> interface_checks(const Settings& settings) {
  std::vector<Interface> usable;
  try {
    usable = allowed_interfaces(local_interfaces(), settings.iface);
  } catch (const Error& error) {
    return {{wrong, "interfaces", error.what(), "Correct TUTTI_IFACE, which says what tcp may use."}};
  }
  std::map<std::string, std::string> by_name;
  bool reaches_others = false;
  for (const Interface& one : usable) {
    std::string& text = by_name[one.name];
    text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", one.address.text(), one.prefix);
    reaches_others |= !one.address.loopback();
  }
  std::vector<Check> checks;
  for (const auto& [name, addresses] : by_name) {
    constexpr std::uint64_t least = 1400;  // clouds have 1400 to 1500
    const Number mtu = number_in(line_of("/sys/class/net/" + name + "/mtu"));
    const Number speed = number_in(line_of("/sys/class/net/" + name + "/speed"));
    std::string found = addresses + (mtu ? fmt::format("; packets of {} bytes", *mtu) : "");
    if (speed && *speed > 0 && *speed < 10'000'000) found += fmt::format(", {} Mbit/s", *speed);
    const bool small = mtu.value_or(least) < least;
    checks.push_back({small ? slower : good, "interface " + name, found,
                      small ? "Raise its MTU, at both ends and between: 1500, or 9000 in a network of your own." : ""});
  }
  if (!reaches_others)
    checks.push_back({slower, "interfaces", "only loopback: no other host can be reached",
                      "Bring an interface up, or start the container with a network, for jobs on several hosts."});
  return checks;
}

/// Connects to itself by loopback, and sends a letter there and back. Returns the time in seconds.
double loopback_round_trip() {
  const std::string host = sockets::loopback_host();
  const Deadline until = deadline_in(Seconds(5));
  const Descriptor listener = sockets::listen_on(host, 0);
  std::string why;
  const auto addresses = sockets::resolve(host, sockets::port_of(listener.fd()), false, why);
  if (addresses.empty()) throw Error(Code::resource, why);
  const Descriptor one = sockets::connect_to(addresses.front(), until);
  if (!one) throw Error(Code::resource, std::string("connecting: ") + std::strerror(errno));
  sockets::poll_until(listener.fd(), POLLIN, until);
  const Descriptor other(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!other) throw Error(Code::resource, std::string("accepting: ") + std::strerror(errno));
  double least = 1e9;
  for (int i = 0; i < 100; ++i) {
    char letter = 't';
    const auto begin = Clock::now();
    for (const auto& [from, to] : {std::pair(one.fd(), other.fd()), {other.fd(), one.fd()}})
      if (::send(from, &letter, 1, MSG_NOSIGNAL) != 1 || !sockets::poll_until(to, POLLIN, until) ||
          ::recv(to, &letter, 1, 0) != 1)
        throw Error(Code::resource, std::string("sending: ") + std::strerror(errno));
    least = std::min(least, Seconds(Clock::now() - begin).count());
  }
  return least;
}

Check loopback_check() {
  try {
    return {good, "tcp to itself", fmt::format("works, {:.0f} us there and back", 1e6 * loopback_round_trip()), ""};
  } catch (const Error& error) {
    return {wrong, "tcp to itself", error.what(), "Allow TCP on the loopback interface (ip link set lo up; firewall)."};
  }
}

/// A provider for devices. Without such devices it need not work.
Check provider_check(const char* name, const char* what, bool has_devices, const Settings& settings) {
  const auto [provider, reason] = find_provider(name, settings);
  std::string found = reason.empty() ? "usable by " + std::string(name) : reason;
  if (provider != nullptr && provider->details != nullptr)
    found += fmt::format("; {}", fmt::join(provider->details(settings), "; "));
  const bool lacks = has_devices && !reason.empty();
  return {lacks ? wrong : good, what, found,
          lacks
              ? fmt::format("This host has such devices: remove what keeps {} from them; `tutti info` says more.", name)
              : ""};
}

}  // namespace

std::vector<Check> network_checks(const Settings& settings) {
  std::vector<Check> checks = interface_checks(settings);
  checks.push_back(loopback_check());
  const std::string net = "/proc/sys/net/";
  checks.push_back(judge_tcp_buffers(line_of(net + "ipv4/tcp_rmem"), line_of(net + "ipv4/tcp_wmem")));
  if (const Number backlog = number_in(line_of(net + "core/somaxconn"))) checks.push_back(judge_backlog(*backlog));
  checks.push_back(judge_ports(line_of(net + "ipv4/ip_local_port_range")));
  return checks;
}

std::vector<Check> device_checks(const Settings& settings) {
  const bool has_gpus = !gpu_domain().empty();
  return {provider_check("ibverbs", "RDMA", has_rdma_devices(), settings),
          provider_check("cuda", "GPUs", has_gpus, settings), provider_check("nccl", "NCCL", has_gpus, settings)};
}

}  // namespace tutti::tools
