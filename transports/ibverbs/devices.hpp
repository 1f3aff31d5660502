// Devices: the RDMA devices of this host, and which of them can be used.
#pragma once

#include <string>
#include <vector>

#include "transports/ibverbs/endpoint.hpp"
#include "tutti/settings.hpp"

namespace tutti::ibverbs {

/// The usable endpoints among the devices and ports that the settings allow, best addresses first. `problem`: the
/// reason why there is none, as a clause.
struct Survey {
  std::vector<Endpoint> endpoints;
  std::vector<std::string> lines;  ///< for messages: one line per port
  std::string problem;             ///< why there are no endpoints; empty if there are some
};

Survey survey(const Settings& settings);

/// Why this process cannot register memory; empty if it can.
std::string registration_problem(const std::string& device);

}  // namespace tutti::ibverbs
