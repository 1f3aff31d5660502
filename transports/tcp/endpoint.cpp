// Endpoint: the addresses that a rank publishes, and the order in which peers try them.
#include "transports/tcp/endpoint.hpp"

#include <algorithm>
#include <sstream>

#include "tutti/status.hpp"

namespace tutti::tcp {
namespace {

constexpr int between_hosts = 4;  // default number of connections between two ranks

bool same_subnet(const Address& address, const std::vector<Interface>& own) {
  return std::ranges::any_of(own, [&](const Interface& i) {
    return !i.address.loopback() && !i.address.link_local() && address.within(i.address, i.prefix);
  });
}

bool is_own(const Address& address, const std::vector<Interface>& own) {
  return std::ranges::any_of(own, [&](const Interface& i) { return i.address == address; });
}

bool have_family(const Address& address, const std::vector<Interface>& own) {
  return std::ranges::any_of(own, [&](const Interface& i) {
    return !i.address.loopback() && !i.address.link_local() && i.address.family == address.family;
  });
}

[[noreturn]] void unreadable() {
  throw Error(Code::protocol,
              "a rank published tcp addresses that this version cannot read. Use the same tutti on all hosts.");
}

std::vector<Candidate> with_own_scopes(const Endpoint& peer, const std::vector<Interface>& own) {
  std::vector<Candidate> found;
  for (const Candidate& candidate : peer.candidates) {
    if (!candidate.address.link_local()) continue;
    for (const Interface& interface : own) {
      if (!interface.address.link_local()) continue;
      found.push_back(candidate);
      found.back().address.scope = interface.address.scope;
    }
  }
  return found;
}

}  // namespace

// The own part is "INSTANCE PORT PORT ...", with each different port once. The shared part has one line each for the
// format, the host's name, its identity, and its network ("=" if equal to the identity). A line "ADDRESS INDEX
// INTERFACE" for each candidate follows; INDEX is the index of its port.
Text Endpoint::text() const {
  std::ostringstream own, shared;
  std::vector<int> ports;
  shared << "tcp 2\n" << host << '\n' << identity << '\n' << (network == identity ? "=" : network) << '\n';
  for (const Candidate& candidate : candidates) {
    auto port = std::ranges::find(ports, candidate.port);
    if (port == ports.end()) port = ports.insert(port, candidate.port);
    shared << candidate.address.without_scope().text() << ' ' << port - ports.begin() << ' '
           << candidate.interface << '\n';
  }
  own << std::hex << instance << std::dec;
  for (const int port : ports) own << ' ' << port;
  return {own.str(), shared.str()};
}

Endpoint Endpoint::host_part(std::string_view shared) {
  std::istringstream in{std::string(shared)};
  Endpoint endpoint;
  std::string line;
  if (!std::getline(in, line) || line != "tcp 2") unreadable();
  if (!std::getline(in, endpoint.host) || !std::getline(in, endpoint.identity) || !std::getline(in, endpoint.network))
    unreadable();
  if (endpoint.network == "=") endpoint.network = endpoint.identity;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string address;
    Candidate candidate;
    if (!(fields >> address >> candidate.port >> candidate.interface)) unreadable();
    const auto parsed = Address::parse(address);
    if (!parsed) unreadable();
    candidate.address = *parsed;
    endpoint.candidates.push_back(candidate);
  }
  return endpoint;
}

Endpoint Endpoint::parse(int rank, std::string_view own, std::string_view shared) {
  Endpoint endpoint = host_part(shared);
  endpoint.rank = rank;
  std::istringstream in{std::string(own)};
  if (!(in >> std::hex >> endpoint.instance >> std::dec)) unreadable();
  std::vector<int> ports;
  for (int port = 0; in >> port;) ports.push_back(port);
  for (Candidate& candidate : endpoint.candidates) {
    if (candidate.port < 0 || static_cast<std::size_t>(candidate.port) >= ports.size()) unreadable();
    candidate.port = ports[static_cast<std::size_t>(candidate.port)];
    if (candidate.port < 1 || candidate.port > 65535) unreadable();
  }
  return endpoint;
}

std::vector<Candidate> candidates_for(const Endpoint& peer, const Endpoint& self, const std::vector<Interface>& own) {
  const bool same_network = peer.network == self.network;
  const bool same_host = same_network && peer.identity == self.identity;
  std::vector<Candidate> loopback, near, far;
  for (const Candidate& candidate : peer.candidates) {
    const Address& address = candidate.address;
    if (address.link_local()) continue;
    // An address that both hosts have, such as every host's container bridge, leads back to this host.
    if (!same_network && !address.loopback() && is_own(address, own)) continue;
    if (address.loopback()) {
      loopback.push_back(candidate);
    } else if (same_subnet(address, own)) {
      near.push_back(candidate);
    } else if (same_network || have_family(address, own)) {
      far.push_back(candidate);
    }
  }
  std::vector<Candidate> order = same_host ? loopback : std::vector<Candidate>();
  order.insert(order.end(), near.begin(), near.end());
  order.insert(order.end(), far.begin(), far.end());
  if (order.empty()) order = with_own_scopes(peer, own);
  if (order.empty() && same_network) order = loopback;
  return order;
}

int connections_between(const Endpoint& peer, const Endpoint& self, int wanted) noexcept {
  if (wanted > 0) return wanted;
  return peer.identity == self.identity ? 1 : between_hosts;
}

int most_connections_between(int wanted) noexcept { return wanted > 0 ? wanted : between_hosts; }

}  // namespace tutti::tcp
