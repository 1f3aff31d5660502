// Addresses of this host's interfaces, and which of them connections may use.
#include "transports/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "tutti/status.hpp"

namespace tutti {
namespace {

int prefix_of(const sockaddr* netmask) {
  if (netmask == nullptr) return 0;
  int bits = 0;
  for (const std::uint8_t byte : Address::from(*netmask).bytes) bits += std::popcount(byte);
  return bits;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> items;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) items.push_back(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

bool matches(const Interface& interface, std::string_view item) {
  if (interface.name == item) return true;
  const std::size_t slash = item.find('/');
  const auto network = Address::parse(item.substr(0, slash));
  if (!network || network->family != interface.address.family) return false;
  int prefix = network->bits();
  if (slash != item.npos) {
    const std::string_view digits = item.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    if (error != std::errc() || end != digits.data() + digits.size() || prefix < 0 || prefix > network->bits()) {
      return false;
    }
  }
  return interface.address.within(*network, prefix);
}

[[noreturn]] void refuse(std::string_view item, const std::string& why, const std::vector<Interface>& all) {
  std::string text = "iface: '" + std::string(item) + "' " + why + " of this host. It has ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    text += (i ? ", " : "") + all[i].name + " " + all[i].address.text() + "/" + std::to_string(all[i].prefix);
  }
  throw Error(Code::invalid, text + ". Set TUTTI_IFACE to some of these, or leave it empty for all.");
}

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  std::string plain(text);
  Address address;
  if (const std::size_t percent = plain.find('%'); percent != plain.npos) {
    address.scope = if_nametoindex(plain.c_str() + percent + 1);
    if (address.scope == 0) return std::nullopt;
    plain.resize(percent);
  }
  address.family = plain.find(':') == plain.npos ? AF_INET : AF_INET6;
  if (inet_pton(address.family, plain.c_str(), address.bytes.data()) != 1) return std::nullopt;
  return address;
}

Address Address::from(const sockaddr& socket) {
  Address address;
  address.family = socket.sa_family;
  if (socket.sa_family == AF_INET) {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in&>(socket).sin_addr, 4);
  } else if (socket.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(socket);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
    if (address.link_local()) address.scope = v6.sin6_scope_id;
  }
  return address;
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  if (inet_ntop(family, bytes.data(), buffer, sizeof buffer) == nullptr) return "?";
  std::string result = buffer;
  char name[IF_NAMESIZE] = {};
  if (scope != 0 && if_indextoname(scope, name) != nullptr) result += std::string("%") + name;
  return result;
}

bool Address::loopback() const noexcept {
  if (family == AF_INET) return bytes[0] == 127;
  constexpr std::array<std::uint8_t, 16> one = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return bytes == one;
}

bool Address::link_local() const noexcept {
  return family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool Address::within(const Address& network, int prefix) const noexcept {
  if (family != network.family) return false;
  const int whole = prefix / 8, rest = prefix % 8;
  if (!std::equal(bytes.begin(), bytes.begin() + whole, network.bytes.begin())) return false;
  if (rest == 0) return true;
  const auto at = static_cast<std::size_t>(whole);
  return (bytes[at] ^ network.bytes[at]) >> (8 - rest) == 0;
}

socklen_t Address::socket_address(int port, sockaddr_storage& out) const noexcept {
  out = {};
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(out);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&v4.sin_addr, bytes.data(), 4);
    return sizeof v4;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, bytes.data(), 16);
  return sizeof v6;
}

std::string endpoint_text(const Address& address, int port) {
  const std::string host = address.family == AF_INET6 ? "[" + address.text() + "]" : address.text();
  return host + ":" + std::to_string(port);
}

std::vector<Interface> local_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw Error(Code::resource, std::string("the interfaces of this host cannot be listed: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, &freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
    found.push_back({at->ifa_name, Address::from(*at->ifa_addr), prefix_of(at->ifa_netmask)});
  }
  return found;
}

std::vector<Interface> allowed_interfaces(const std::vector<Interface>& all, std::string_view allowed) {
  while (allowed.starts_with(' ')) allowed.remove_prefix(1);
  const bool excludes = allowed.starts_with('^');  // as in NCCL_SOCKET_IFNAME
  const auto items = split(allowed.substr(excludes ? 1 : 0));
  if (items.empty()) return all;
  std::vector<bool> wanted(all.size());
  for (const std::string_view item : items) {
    bool any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (matches(all[i], item)) wanted[i] = any = true;
    }
    if (!any && !excludes)
      refuse(item, "is no interface, address or prefix", all);  // excluded interfaces need not exist
  }
  std::vector<Interface> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (wanted[i] != excludes) chosen.push_back(all[i]);
  }
  if (chosen.empty() && !all.empty()) refuse(allowed, "leaves no interface", all);
  return chosen;
}

namespace {

// Returns the first suitable address of each rank. Returns nullopt if a rank has none, or if ranks on two hosts have
// the same one (such as a container bridge's).
template <class Suits>
std::optional<std::vector<Address>> one_each(const std::vector<Placed>& ranks, Suits suits) {
  std::vector<Address> chosen;
  for (const Placed& rank : ranks) {
    const auto found = std::ranges::find_if(rank.interfaces, suits);
    if (found == rank.interfaces.end()) return std::nullopt;
    for (std::size_t other = 0; other < chosen.size(); ++other)
      if (chosen[other] == found->address && ranks[other].host != rank.host) return std::nullopt;
    chosen.push_back(found->address);
  }
  return chosen;
}

bool routable(const Interface& interface, int family) {
  const Address& address = interface.address;
  return address.family == family && !address.loopback() && !address.link_local();
}

}  // namespace

std::vector<Address> addresses_in_common(const std::vector<Placed>& ranks) {
  const bool one_host = std::ranges::all_of(ranks, [&](const Placed& rank) { return rank.host == ranks.front().host; });
  for (const int family : {AF_INET, AF_INET6}) {
    const auto loopback = [&](const Interface& i) { return i.address.loopback() && i.address.family == family; };
    if (auto chosen = one_host ? one_each(ranks, loopback) : std::nullopt) return *chosen;
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (const Interface& first : ranks.front().interfaces) {
      if (!routable(first, family)) continue;
      const auto neighbour = [&](const Interface& i) { return i.address.within(first.address, first.prefix); };
      if (auto chosen = one_each(ranks, neighbour)) return *chosen;
    }
  }
  for (const int family : {AF_INET, AF_INET6})
    if (auto chosen = one_each(ranks, [&](const Interface& i) { return routable(i, family); })) return *chosen;
  const auto without = [&](int family) {
    return std::ranges::find_if(ranks, [&](const Placed& rank) {
      return std::ranges::none_of(rank.interfaces, [&](const Interface& i) { return routable(i, family); });
    });
  };
  const auto no_four = without(AF_INET), no_six = without(AF_INET6);
  if (no_four != ranks.end() && no_six != ranks.end())
    throw Error(Code::unsupported, "the ranks have no addresses of one family that other hosts could reach: rank " +
                                       std::to_string(no_four - ranks.begin()) +
                                       " of the communicator has none of IPv4 and rank " +
                                       std::to_string(no_six - ranks.begin()) +
                                       " none of IPv6. Set TUTTI_IFACE to interfaces of one network.");
  throw Error(Code::unsupported,
              "several hosts have the same addresses. Set TUTTI_IFACE to interfaces of one network.");
}

}  // namespace tutti
