// The groups of checks of `tutti doctor --host`: each measures or reads this host.
#pragma once

#include <vector>

#include "tools/doctor/check.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

std::vector<Check> memory_checks(const Settings& settings);
std::vector<Check> process_checks();
/// Takes 0.2 s, as it looks how much of that time other guests of the machine take.
std::vector<Check> core_checks();
std::vector<Check> clock_checks();
std::vector<Check> network_checks(const Settings& settings);
/// RDMA devices and GPUs, as `tutti info` knows them.
std::vector<Check> device_checks(const Settings& settings);

/// True if this host has RDMA devices.
bool has_rdma_devices();

}  // namespace tutti::tools
