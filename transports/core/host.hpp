// Who this process is: its host, its process id, how many cores it may use.
#pragma once

#include <cstddef>
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

/// So many of `cores` as the cgroup quota of this process allows for, at least 1.
int cores_in_quota(int cores) noexcept;

/// The numbers of the cores in the affinity mask, ascending; empty where it cannot be read.
std::vector<int> allowed_cores();

/// Moves the calling thread to `core` and gives it its affinity mask back; without effect where the mask lacks it.
void step_onto_core(int core);

/// Ascending numbers as the kernel writes them, "0-3,8,10-11", and back; what is no number is passed over.
std::string core_list(std::span<const int> cores);
std::vector<int> parse_core_list(const std::string& list);

/// The order to bind ranks to `cores` in: one thread of every physical core, node by node, before the second threads.
/// `system` stands for /sys/devices/system, whose cpu*/topology/thread_siblings_list and node*/cpulist tell; where they
/// do not, the order stays.
std::vector<int> binding_order(std::span<const int> cores, const std::string& system = "/sys/devices/system");

/// The NUMA node that has all of `cores`, by the node*/cpulist files in the folder `root`; -1 where none has.
int numa_node(std::span<const int> cores, const std::string& root = "/sys/devices/system/node");

/// What a virtual machine is told of a cache may be one that it shares with others: so many bytes of each are believed.
inline constexpr std::size_t most_cache_bytes = std::size_t{64} << 20;

/// Bytes of all third-level caches that `cores` have, each counted once and as far as it is believed, by the
/// cpu*/cache/index* files in the folder `root`; 0 where they do not tell.
std::size_t third_level_caches(std::span<const int> cores, const std::string& root = "/sys/devices/system/cpu");

/// Names the GPUs of this host, by the folders of their drivers' addresses in `root`: processes of one host with the
/// same text may hand one another GPU memory. Empty: there are none.
std::string gpu_domain(const std::string& root = "/proc/driver/nvidia/gpus");

/// The CPU quota, in cores, of the cgroups (versions 1 and 2) that `membership`, the text of a
/// /proc/PID/cgroup, names under `root`, usually /sys/fs/cgroup. Infinite where there is none.
double cgroup_cores(const std::string& membership, const std::string& root);

}  // namespace tutti
