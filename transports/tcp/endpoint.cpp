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

std::string Endpoint::text() const {
  std::ostringstream out;
  out << "tcp 1\n" << rank << '\n' << instance << '\n' << host << '\n' << identity << '\n' << network << '\n';
  for (const Candidate& candidate : candidates)
    out << candidate.address.without_scope().text() << ' ' << candidate.port << ' ' << candidate.interface << '\n';
  return out.str();
}

Endpoint Endpoint::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  Endpoint endpoint;
  std::string line;
  const auto fail = [] [[noreturn]] {
    throw Error(Code::protocol,
                "a rank published tcp addresses that this version cannot read. Use the same tutti on all hosts.");
  };
  if (!std::getline(in, line) || line != "tcp 1") fail();
  if (!(in >> endpoint.rank >> endpoint.instance) || !std::getline(in, line)) fail();
  if (!std::getline(in, endpoint.host) || !std::getline(in, endpoint.identity) || !std::getline(in, endpoint.network))
    fail();
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string address;
    Candidate candidate;
    if (!(fields >> address >> candidate.port >> candidate.interface)) fail();
    const auto parsed = Address::parse(address);
    if (!parsed || candidate.port < 1 || candidate.port > 65535) fail();
    candidate.address = *parsed;
    endpoint.candidates.push_back(candidate);
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

}  // namespace tutti::tcp
