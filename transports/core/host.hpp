// Who this process is: its host, its process id, how many cores it may use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Same text = same host: boot id and network namespace, or `host_id` where that is set.
std::string host_identity(std::string_view host_id);

/// For messages: the host's name.
std::string host_name();

/// Cores that this process may use: affinity mask and cgroup quota, at least 1.
int usable_cores() noexcept;

/// The numbers of the cores in the affinity mask, ascending; empty where it cannot be read.
std::vector<int> allowed_cores();

/// The NUMA node that has all of `cores`, by the node*/cpulist files in the folder `root`; -1 where none has.
int numa_node(std::span<const int> cores, const std::string& root = "/sys/devices/system/node");

/// Names the GPUs of this host, by the folders of their drivers' addresses in `root`: processes of one host with the
/// same text may hand one another GPU memory. Empty: there are none.
std::string gpu_domain(const std::string& root = "/proc/driver/nvidia/gpus");

/// The CPU quota, in cores, of the cgroups (versions 1 and 2) that `membership`, the text of a
/// /proc/PID/cgroup, names under `root`, usually /sys/fs/cgroup. Infinite where there is none.
double cgroup_cores(const std::string& membership, const std::string& root);

}  // namespace tutti
