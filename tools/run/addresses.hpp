// The addresses at which other hosts can reach the launcher.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// Returns numeric addresses of this host's interfaces that are up: loopback last, no link-local IPv6 addresses.
std::vector<std::string> own_addresses();

/// Returns the URL of a store, for example "tcp://10.0.0.1:4711" or "tcp://[fd00::1]:4711".
std::string store_url(const std::string& host, int port);

/// Returns true if `name` is this host: localhost, 127.0.0.1, ::1, or the host's name with or without its domain.
bool is_this_host(const std::string& name);

}  // namespace tutti::tools
