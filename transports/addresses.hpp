// Addresses of this host's interfaces, and which of them connections may use.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// An IPv4 or IPv6 address. `scope` is the interface's index for link-local IPv6, valid on this host only.
struct Address {
  int family = AF_UNSPEC;
  std::array<std::uint8_t, 16> bytes{};  ///< network order; IPv4 uses the first four
  std::uint32_t scope = 0;

  static std::optional<Address> parse(std::string_view text);
  static Address from(const sockaddr& socket);
  std::string text() const;  ///< "10.0.0.2", "fe80::1%eth0"
  /// The address for use by other hosts, where an interface's index has no meaning.
  Address without_scope() const noexcept { return {family, bytes, 0}; }

  int bits() const noexcept { return family == AF_INET ? 32 : 128; }
  bool loopback() const noexcept;
  bool link_local() const noexcept;  ///< fe80::/10
  bool within(const Address& network, int prefix) const noexcept;

  /// Fills `out`; returns its length.
  socklen_t socket_address(int port, sockaddr_storage& out) const noexcept;

  bool operator==(const Address&) const = default;
};

/// "10.0.0.2:4711", "[::1]:4711".
std::string endpoint_text(const Address& address, int port);

/// One address of an interface that is up.
struct Interface {
  std::string name;
  Address address;
  int prefix = 0;  ///< prefix length in bits
};

/// All addresses of interfaces that are up, including loopback. Throws Error{resource}.
std::vector<Interface> local_interfaces();

/// Returns the elements of `all` that `allowed` selects. `allowed` is a list of interfaces, addresses or prefixes
/// ("eth0,10.0.0.0/8,::1"). A list that begins with ^ selects all others ("^docker0,lo"). An empty list selects all.
/// Throws Error{invalid}, whose text lists `all`, if nothing is left or, in a list without ^, if an item matches
/// nothing.
std::vector<Interface> allowed_interfaces(const std::vector<Interface>& all, std::string_view allowed);

/// The addresses of one rank, and the identity of its host. Two ranks with the same identity are on the same host.
struct Placed {
  std::string host;
  std::vector<Interface> interfaces;
};

/// Chooses one address for each rank, for libraries that accept only one: loopback addresses if all ranks are on one
/// host; otherwise addresses in one network; otherwise addresses of one family. Ranks that pass the same list get the
/// same result. Throws Error{unsupported} if there is no choice. The text names a rank without an IPv4 address and a
/// rank without an IPv6 address, or says that several hosts have the same addresses.
std::vector<Address> addresses_in_common(const std::vector<Placed>& ranks);

}  // namespace tutti
