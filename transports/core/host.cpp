// Reads host and process properties from the kernel.
#include "transports/core/host.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "transports/core/ranges.hpp"

namespace tutti {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// cpu.max has a quota and a period: "150000 100000", or "max 100000" for no quota.
double cores_of_v2(const std::string& folder) {
  std::istringstream line(first_line(folder + "/cpu.max"));
  double quota = 0, period = 0;
  return line >> quota >> period && quota > 0 && period > 0 ? quota / period : unlimited;
}

// A quota of -1 means none.
double cores_of_v1(const std::string& folder) {
  std::istringstream quota_line(first_line(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_line(first_line(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quota_line >> quota && period_line >> period && quota > 0 && period > 0 ? quota / period : unlimited;
}

// The lowest quota of a group and its ancestors up to `mount`, as all of them apply. In a container, `path` may not
// exist under `mount`; then only the files of `mount` itself count.
double least_upwards(const std::string& mount, std::string path, double (*cores)(const std::string&)) {
  double least = cores(mount);
  while (path.size() > 1) {
    least = std::min(least, cores(mount + path));
    path.resize(path.find_last_of('/'));
  }
  return least;
}

bool names_cpu(std::string_view controllers) {
  for (std::size_t begin = 0; begin <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', begin), controllers.size());
    if (controllers.substr(begin, end - begin) == "cpu") return true;
    begin = end + 1;
  }
  return false;
}

// Names in a directory that begin with `prefix`, ascending; empty if it cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (std::filesystem::directory_iterator entry(folder, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable))
    if (const std::string name = entry->path().filename(); name.starts_with(prefix)) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

struct Node {
  int number = 0;
  std::vector<int> cores;
};

// The nodes of the node*/cpulist files in `root`, ordered by name.
std::vector<Node> nodes_in(const std::string& root) {
  std::vector<Node> nodes;
  for (const std::string& name : names_in(root, "node")) {
    int number = -1;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + 4, end, number).ptr == end && number >= 0)
      nodes.push_back({number, parse_core_list(first_line(root + "/" + name + "/cpulist"))});
  }
  return nodes;
}

// The node that contains all of `cores`; -1 if none does.
int node_of(std::span<const int> cores, const std::vector<Node>& nodes) {
  const auto has = [](const Node& node, int core) { return std::ranges::find(node.cores, core) != node.cores.end(); };
  for (const Node& node : nodes)
    if (std::ranges::all_of(cores, [&](int core) { return has(node, core); })) return node.number;
  return -1;
}

using CoreSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;

CoreSet make_core_set(std::size_t cpus) {
  CoreSet set(CPU_ALLOC(cpus), [](cpu_set_t* s) { CPU_FREE(s); });
  if (set) CPU_ZERO_S(CPU_ALLOC_SIZE(cpus), set.get());
  return set;
}

// The calling thread's affinity mask and its size in bits, one per core; null and 0 if it cannot be read.
std::pair<CoreSet, std::size_t> affinity_mask() {
  // The mask must be at least as large as the kernel's, whose size can only be found by trial.
  for (std::size_t cpus = 1024; cpus <= 1 << 20; cpus *= 2)
    if (CoreSet set = make_core_set(cpus); set && ::sched_getaffinity(0, CPU_ALLOC_SIZE(cpus), set.get()) == 0)
      return {std::move(set), cpus};
  return {CoreSet(nullptr, [](cpu_set_t*) {}), 0};
}

}  // namespace

std::vector<int> allowed_cores() {
  const auto [mask, cpus] = affinity_mask();
  std::vector<int> cores;
  for (std::size_t cpu = 0; cpu < cpus; ++cpu)
    if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(cpus), mask.get())) cores.push_back(static_cast<int>(cpu));
  return cores;
}

void step_onto_core(int core) {
  const auto [mask, cpus] = affinity_mask();
  const CoreSet one = make_core_set(cpus);
  const auto cpu = static_cast<std::size_t>(core);
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
  if (core < 0 || cpu >= cpus || !one || !CPU_ISSET_S(cpu, bytes, mask.get())) return;
  CPU_SET_S(cpu, bytes, one.get());
  if (::sched_setaffinity(0, bytes, one.get()) == 0) ::sched_setaffinity(0, bytes, mask.get());
}

std::string core_list(std::span<const int> cores) { return ranges(cores, ",", 2); }

std::vector<int> parse_core_list(const std::string& list) {
  constexpr int most = 1 << 20;  // the limit of allowed_cores()
  std::vector<int> cores;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::istringstream numbers(range);
    int first = 0, last = 0;
    if (!(numbers >> first)) continue;
    if (numbers.get() != '-' || !(numbers >> last)) last = first;
    for (int core = std::max(first, 0); core <= std::min(last, most); ++core) {
      if (cores.size() > most) return cores;
      cores.push_back(core);
    }
  }
  return cores;
}

std::vector<int> binding_order(std::span<const int> cores, const std::string& system) {
  struct Key {
    std::ptrdiff_t thread = 0;  // index of the hardware thread in its physical core
    int node = -1, core = 0;
    auto operator<=>(const Key&) const = default;
  };
  const std::vector<Node> nodes = nodes_in(system + "/node");
  std::vector<Key> keys;
  for (const int core : cores) {
    const std::string folder = system + "/cpu/cpu" + std::to_string(core) + "/topology";
    const std::vector<int> siblings = parse_core_list(first_line(folder + "/thread_siblings_list"));
    // Hardware threads outside `cores` do not count: if the first of a core is outside, its second is its first here.
    const auto before = std::ranges::count_if(
        siblings, [&](int one) { return one < core && std::ranges::find(cores, one) != cores.end(); });
    keys.push_back({before, node_of(std::span(&core, 1), nodes), core});
  }
  std::ranges::sort(keys);
  std::vector<int> order;
  for (const Key& key : keys) order.push_back(key.core);
  return order;
}

std::size_t third_level_caches(std::span<const int> cores, const std::string& root) {
  std::size_t bytes = 0;
  std::set<int> counted;  // cores
  for (const int core : cores) {
    if (counted.contains(core)) continue;
    const std::string caches = root + "/cpu" + std::to_string(core) + "/cache";
    for (const std::string& name : names_in(caches, "index")) {
      const std::string cache = caches + "/" + name;
      const std::vector<int> sharers = parse_core_list(first_line(cache + "/shared_cpu_list"));
      std::istringstream size(first_line(cache + "/size"));  // "32768K"
      std::size_t kib = 0;
      if (first_line(cache + "/level") != "3" || sharers.empty() || !(size >> kib) || size.get() != 'K') continue;
      bytes += std::min(kib << 10, most_cache_bytes);
      counted.insert(sharers.begin(), sharers.end());
    }
  }
  return bytes;
}

int numa_node(std::span<const int> cores, const std::string& root) {
  return cores.empty() ? -1 : node_of(cores, nodes_in(root));
}

std::string gpu_domain(const std::string& root) {
  std::string domain;
  for (const std::string& address : names_in(root, "")) domain += (domain.empty() ? "" : " ") + address;
  return domain;
}

std::string host_identity(std::string_view host_id) {
  if (!host_id.empty()) return std::string(host_id);
  struct stat network {};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return machine_identity() + "/" + (known ? std::to_string(network.st_ino) : "0");
}

std::string machine_identity() {
  static const std::string boot_id = first_line("/proc/sys/kernel/random/boot_id");
  return boot_id.empty() ? host_name() : boot_id;
}

std::string host_name() {
  char text[256] = {};
  if (::gethostname(text, sizeof(text) - 1) != 0 || text[0] == '\0') return "localhost";
  return text;
}

double cgroup_cores(const std::string& membership, const std::string& root) {
  double least = unlimited;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // "hierarchy:controllers:path"; the controllers of version 2 are empty.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (controllers.empty()) {
      least = std::min(least, least_upwards(root, path, cores_of_v2));
      least = std::min(least, least_upwards(root + "/unified", path, cores_of_v2));
    } else if (names_cpu(controllers)) {
      least = std::min(least, least_upwards(root + "/" + controllers, path, cores_of_v1));
      if (controllers != "cpu") least = std::min(least, least_upwards(root + "/cpu", path, cores_of_v1));
    }
  }
  return least;
}

int cores_in_quota(int cores) noexcept {
  try {
    std::ifstream file("/proc/self/cgroup");
    std::ostringstream membership;
    membership << file.rdbuf();
    const double quota = cgroup_cores(membership.str(), "/sys/fs/cgroup");
    if (quota < cores) return std::max(1, static_cast<int>(std::ceil(quota)));
  } catch (...) {
    // Out of memory for the file's text: keep the result so far.
  }
  return std::max(1, cores);
}

int online_cores() noexcept { return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))); }

int usable_cores() noexcept {
  try {
    if (const auto cores = allowed_cores(); !cores.empty()) return cores_in_quota(static_cast<int>(cores.size()));
  } catch (...) {
    // Out of memory for the mask.
  }
  return cores_in_quota(static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace tutti
