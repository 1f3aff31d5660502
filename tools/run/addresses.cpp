// The interfaces of this host, as getifaddrs() lists them.
#include "tools/run/addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <strings.h>

#include <algorithm>
#include <memory>

#include "collectives/bootstrap/socket.hpp"
#include "transports/core/host.hpp"

namespace tutti::tools {

std::vector<std::string> own_addresses() {
  std::vector<std::string> found, loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr))
      continue;
    (entry->ifa_flags & IFF_LOOPBACK ? loopback : found).push_back(sockets::host_of(*entry->ifa_addr));
  }
  found.insert(found.end(), loopback.begin(), loopback.end());
  return found;
}

std::string store_url(const std::string& host, int port) { return "tcp://" + sockets::shown(host, port); }

bool is_this_host(const std::string& name) {
  const std::string own = host_name();
  const std::string names[] = {"localhost", "127.0.0.1", "::1", own, own.substr(0, own.find('.'))};
  return std::any_of(std::begin(names), std::end(names),
                     [&](const std::string& one) { return strcasecmp(one.c_str(), name.c_str()) == 0; });
}

}  // namespace tutti::tools
