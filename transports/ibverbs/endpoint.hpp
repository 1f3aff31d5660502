// Endpoints: the addresses of a host's RDMA ports, the card in which a rank publishes them, and the choice of
// endpoints for a pair of ranks. Nothing here needs a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/addresses.hpp"
#include "tutti/clock.hpp"

namespace tutti::ibverbs {

/// How packets are routed: by a subnet manager's LIDs, by Ethernet addresses, or by IP.
enum class Fabric : std::uint8_t { infiniband, roce1, roce2 };

/// One address of one port.
struct Endpoint {
  std::string device;
  int port = 1;
  Fabric fabric = Fabric::roce2;
  int lid = 0;        ///< infiniband only
  int gid_index = 0;  ///< index of `address` in the port's GID table
  Address address;    ///< the GID, as IPv4 if it is an IPv4-mapped one
  int prefix = 0;     ///< prefix length of its network; 0: unknown
  int mtu = 1024;     ///< bytes of payload per packet
  double gigabits = 0;

  std::string text() const;  ///< "rxe0 port 1, RoCE v2 at 10.77.0.1"
};

/// Converts a GID (16 bytes) to an address and back. An IPv4-mapped GID becomes an IPv4 address.
Address address_of(const std::uint8_t (&gid)[16]) noexcept;
void gid_of(const Address& address, std::uint8_t (&gid)[16]) noexcept;

/// What a rank publishes.
struct Card {
  int rank = 0;
  std::string host;  ///< host name, for messages only
  std::vector<Endpoint> endpoints;

  std::string text() const;
  static Card parse(std::string_view text);  ///< throws Error{protocol}
};

/// The best routes between two ranks, as indices into their lists of endpoints; empty if no endpoint of the one rank
/// reaches an endpoint of the other. Preference: a common subnet, then routed IP, then link-local addresses; within
/// these the order of the lists. Both ranks get the same routes. Further routes use other ports and are as good as the
/// first; at most `most` in all.
struct Route {
  std::size_t first = 0, second = 0;
};
std::vector<Route> choose_routes(const std::vector<Endpoint>& first, const std::vector<Endpoint>& second,
                                 std::size_t most);

/// Removes RoCE endpoints with link-local addresses. Every port has one, even if it is not connected to the others,
/// so they are used only if the user selects RDMA explicitly.
std::vector<Endpoint> without_link_local(std::vector<Endpoint> endpoints);

/// The number of retries before a device gives up a peer, and the exponent of the ACK timeout (4.096 us *
/// 2^exponent), so that it gives up after about `silence`. The number is not 7, which soft-RoCE takes as infinite.
inline constexpr int ack_retries = 6;
int ack_exponent(Seconds silence) noexcept;

}  // namespace tutti::ibverbs
