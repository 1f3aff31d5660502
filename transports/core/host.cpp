// Where this process runs.
#include "transports/core/host.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "150000 100000", "max 100000"
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

// The least over a group and its ancestors up to `mount`: a quota binds all below it. A container
// may see a path that does not exist under its own mount; then only the mount's own files count.
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

int cores_by_affinity() noexcept {
  // The mask must be at least as large as the kernel's, whose size can only be found by trying.
  for (std::size_t cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int answer = ::sched_getaffinity(0, bytes, set);
    const int count = answer == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

std::string host_identity(std::string_view host_id) {
  if (!host_id.empty()) return std::string(host_id);
  std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  if (boot.empty()) boot = host_name();
  struct stat network {};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return boot + "/" + (known ? std::to_string(network.st_ino) : "0");
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

int usable_cores() noexcept {
  const int allowed = cores_by_affinity();
  try {
    std::ifstream file("/proc/self/cgroup");
    std::ostringstream membership;
    membership << file.rdbuf();
    const double quota = cgroup_cores(membership.str(), "/sys/fs/cgroup");
    if (quota < allowed) return std::max(1, static_cast<int>(std::ceil(quota)));
  } catch (...) {
    // Without memory for the file's text the affinity mask is still right.
  }
  return allowed;
}

}  // namespace tutti
