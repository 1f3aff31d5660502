// Devices: what RDMA hardware this host has, and which of it can be used.
#pragma once

#include <string>
#include <vector>

#include "transports/core/settings.hpp"
#include "transports/ibverbs/endpoint.hpp"

namespace tutti::ibverbs {

/// Of all devices and ports that the settings allow: those in use, best addresses first; and why not the others, or why
/// there are none, as clauses.
struct Survey {
  std::vector<Endpoint> endpoints;
  std::vector<std::string> lines;  ///< for people: one for each port
  std::string problem;             ///< empty where there are endpoints
};

Survey survey(const Settings& settings);

/// Why this process cannot register memory; empty where it can.
std::string registration_problem(const std::string& device);

}  // namespace tutti::ibverbs
