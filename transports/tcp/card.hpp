// Card: what a rank publishes so that the others can reach it, and the order in which they try.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/addresses.hpp"

namespace tutti::tcp {

/// One place where a rank listens.
struct Candidate {
  Address address;
  int port = 0;
  std::string interface;
};

struct Card {
  int rank = 0;
  std::uint64_t instance = 0;  ///< random; names this listener, so that a stranger at the same address is noticed
  std::string host;            ///< its name, for messages only
  std::string identity;        ///< host_identity() with the user's host_id
  std::string network;         ///< host_identity() without it: the real network namespace
  std::vector<Candidate> candidates;

  std::string text() const;
  static Card parse(std::string_view text);  ///< throws Error{protocol}
};

/// Where to try to reach `peer` from a rank with the card `self` and the interfaces `own`, best
/// first: loopback within one host; addresses on a common subnet; the others of a family that we
/// have; link-local IPv6, with each of our scopes, only if there is nothing else. Loopback
/// between two "hosts" of one network namespace (host_id was set) is the last resort.
std::vector<Candidate> candidates_for(const Card& peer, const Card& self, const std::vector<Interface>& own);

/// How many connections two ranks may have. `wanted` is the setting tcp_connections, equal on both; 0: one within a
/// host, several between hosts, where one may not fill the network (a flow's share of the links, its window).
int connections_between(const Card& peer, const Card& self, int wanted) noexcept;

}  // namespace tutti::tcp
