// Endpoint: the addresses that a rank publishes, and the order in which peers try them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/addresses.hpp"
#include "tutti/provider/texts.hpp"

namespace tutti::tcp {

/// An address and port where a rank listens.
struct Candidate {
  Address address;
  int port = 0;
  std::string interface;
};

struct Endpoint {
  int rank = 0;
  std::uint64_t instance = 0;  ///< random number of this listener, by which a stranger at the same address is detected
  std::string host;            ///< the host's name, for messages only
  std::string identity;        ///< host_identity() with the user's host_id
  std::string network;         ///< host_identity() without it: the real network namespace
  std::vector<Candidate> candidates;

  /// As text: the instance and the ports are the rank's own, the rest is the same for all ranks of its host.
  Text text() const;
  static Endpoint parse(int rank, std::string_view own, std::string_view shared);  ///< throws Error{protocol}
  /// Parses the shared part alone. Candidate::port is then an index into the list of ports. Throws Error{protocol}.
  static Endpoint host_part(std::string_view shared);
};

/// The candidates for reaching `peer` from a rank with the endpoint `self` and the interfaces `own`, best first:
/// loopback within one host; addresses on a common subnet; other addresses of a family that this rank has; link-local
/// IPv6 with each of this rank's scopes, only if there is nothing else. Loopback between two "hosts" of one network
/// namespace (host_id was set) is the last resort.
std::vector<Candidate> candidates_for(const Endpoint& peer, const Endpoint& self, const std::vector<Interface>& own);

/// Maximum number of connections between two ranks. `wanted` is the setting tcp_connections, equal on both. 0 means 1
/// within a host and 4 between hosts, where one flow may not saturate the network.
int connections_between(const Endpoint& peer, const Endpoint& self, int wanted) noexcept;
/// The most that connections_between() returns.
int most_connections_between(int wanted) noexcept;

}  // namespace tutti::tcp
