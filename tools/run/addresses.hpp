// Where the launcher can be reached.
#pragma once

#include <string>
#include <vector>

namespace tutti::tools {

/// The numbers of this host's interfaces that are up, loopback last, without link-local ones.
std::vector<std::string> own_addresses();

/// "tcp://10.0.0.1:4711", "tcp://[fd00::1]:4711".
std::string store_url(const std::string& host, int port);

/// True for this host's own names: localhost, what hostname(1) says, with or without its domain, the loopback's
/// numbers.
bool is_this_host(const std::string& name);

}  // namespace tutti::tools
