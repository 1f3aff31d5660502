// Properties of the host and the process: identity, cores, caches, NUMA nodes, GPUs and CPU quota.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A text that is equal in all processes of one host: boot id and network namespace, or `host_id` if not empty.
std::string host_identity(std::string_view host_id);

/// A text that is equal in all processes of one machine, whatever their host_id: the boot id, or the host's name if
/// there is no boot id.
std::string machine_identity();

/// The host's name, for messages.
std::string host_name();

/// Number of cores of this machine that are online, even if this process may not use them; at least 1.
int online_cores() noexcept;

/// Number of cores that this process may use, by its affinity mask and cgroup quota; at least 1.
int usable_cores() noexcept;

/// `cores` limited by the cgroup quota of this process, at least 1.
int cores_in_quota(int cores) noexcept;

/// Core numbers in the affinity mask, ascending; empty if it cannot be read.
std::vector<int> allowed_cores();

/// Moves the calling thread to `core`, then restores its affinity mask. No effect if the mask lacks `core`.
void step_onto_core(int core);

/// Converts ascending numbers to the kernel's list format, "0-3,8,10-11", and back; the parser skips what is not a
/// number.
std::string core_list(std::span<const int> cores);
std::vector<int> parse_core_list(const std::string& list);

/// The order in which to bind ranks to `cores`: one hardware thread of every physical core, NUMA node by node, before
/// the second threads. Reads cpu*/topology/thread_siblings_list and node*/cpulist under `system`; without these files
/// the order is ascending.
std::vector<int> binding_order(std::span<const int> cores, const std::string& system = "/sys/devices/system");

/// The NUMA node that contains all of `cores`, from the node*/cpulist files under `root`; -1 if there is none.
int numa_node(std::span<const int> cores, const std::string& root = "/sys/devices/system/node");

/// Most bytes that one cache counts for: a virtual machine may report a cache that it shares with others.
inline constexpr std::size_t most_cache_bytes = std::size_t{64} << 20;

/// Total bytes of the L3 caches of `cores`, each counted once and limited to most_cache_bytes, from the
/// cpu*/cache/index* files under `root`; 0 if unknown.
std::size_t third_level_caches(std::span<const int> cores, const std::string& root = "/sys/devices/system/cpu");

/// Identifies the GPUs of this host by the directory names (bus addresses) under `root`. Processes of one host with
/// equal text may share GPU memory. Empty if there are no GPUs.
std::string gpu_domain(const std::string& root = "/proc/driver/nvidia/gpus");

/// The CPU quota, in cores, of the cgroups (version 1 or 2) listed in `membership`, the text of a /proc/PID/cgroup,
/// under `root`, usually /sys/fs/cgroup. Infinite if there is none.
double cgroup_cores(const std::string& membership, const std::string& root);

}  // namespace tutti
