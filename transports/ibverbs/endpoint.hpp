// Endpoints: the ports of a host's RDMA devices by their addresses, what a rank publishes of them, and by which two of
// them a pair of ranks talks. Nothing here needs a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/addresses.hpp"
#include "transports/core/clock.hpp"

namespace tutti::ibverbs {

/// By what packets find their way: a subnet manager's numbers, Ethernet addresses, or IP.
enum class Fabric : std::uint8_t { infiniband, roce1, roce2 };

/// One address of one port.
struct Endpoint {
  std::string device;
  int port = 1;
  Fabric fabric = Fabric::roce2;
  int lid = 0;        ///< infiniband only
  int gid_index = 0;  ///< of `address` in the port's table
  Address address;    ///< the GID; an IPv4 one where it stands for that
  int prefix = 0;     ///< bits of its network; 0: not known
  int mtu = 1024;     ///< bytes of a packet's payload
  double gigabits = 0;

  std::string text() const;  ///< "rxe0 port 1, RoCE v2 at 10.77.0.1"
};

/// The GID's sixteen bytes as an address: IPv4 where it is mapped from that; and back.
Address address_of(const std::uint8_t (&gid)[16]) noexcept;
void gid_of(const Address& address, std::uint8_t (&gid)[16]) noexcept;

/// What a rank tells the others.
struct Card {
  int rank = 0;
  std::string host;  ///< its name, for messages only
  std::vector<Endpoint> endpoints;

  std::string text() const;
  static Card parse(std::string_view text);  ///< throws Error{protocol}
};

/// The best endpoints for two ranks, as places in their lists; nothing where none of the one reaches one of the other:
/// a subnet in common, then routed IP, then link-local addresses; within that the lists' orders. Symmetric. Further
/// routes, by ports that are not in use yet, are as good as the first; `most` in all.
struct Route {
  std::size_t first = 0, second = 0;
};
std::vector<Route> choose_routes(const std::vector<Endpoint>& first, const std::vector<Endpoint>& second,
                                 std::size_t most);

/// Without the RoCE endpoints whose address is link-local: every port has one, also a port that nothing joins to the
/// others, so they are for those who name RDMA.
std::vector<Endpoint> without_link_local(std::vector<Endpoint> endpoints);

/// How many retries a card makes before it gives a peer up, and the exponent of the time that it waits for each (4.096
/// us times two to that), so that it gives up after about `silence`. Not 7: soft-RoCE takes that for ever.
inline constexpr int ack_retries = 6;
int ack_exponent(Seconds silence) noexcept;

}  // namespace tutti::ibverbs
