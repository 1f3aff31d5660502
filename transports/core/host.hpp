// Who this process is: its host, its process id, how many cores it may use.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// Same text = same host: boot id and network namespace, or `host_id` where that is set.
std::string host_identity(std::string_view host_id);

/// For messages: the host's name.
std::string host_name();

/// Cores that this process may use: affinity mask and cgroup quota, at least 1.
int usable_cores() noexcept;

/// The CPU quota, in cores, of the cgroups (versions 1 and 2) that `membership`, the text of a
/// /proc/PID/cgroup, names under `root`, usually /sys/fs/cgroup. Infinite where there is none.
double cgroup_cores(const std::string& membership, const std::string& root);

}  // namespace tutti
