#include "tutti/threads.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "tutti/status.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

using Number = std::optional<std::uint64_t>;

/// A count that the kernel keeps, and its limit; nullopt: there is none, or it cannot be read.
struct Limit {
  Number now, most;
  std::string what;  ///< "in the control group /x (pids.max)"
  std::string raise;
  bool reached() const noexcept { return now && most && *now >= *most; }
};

Number number_from(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? Number(value) : std::nullopt;
}

Number number_in(const fs::path& file) {
  std::string word;
  return std::ifstream(file) >> word ? number_from(word) : std::nullopt;
}

// In a container, `path` may be the path on the host; then `mount` is the container's own group.
void add_groups(const fs::path& mount, const std::string& path, std::vector<Limit>& limits) {
  std::error_code none;
  fs::path group = mount / fs::path(path).relative_path();
  if (!fs::exists(group, none)) group = mount;
  for (;; group = group.parent_path()) {
    limits.push_back({number_in(group / "pids.current"), number_in(group / "pids.max"),
                      "in the control group " + group.string() + " (pids.max)",
                      "raise it (docker --pids-limit, TasksMax= of systemd, the pod's limit)"});
    if (group == mount || !group.has_relative_path()) return;
  }
}

// Lines of /proc/self/cgroup: "0::/path" of version 2, "8:pids:/path" of version 1.
void add_groups(const fs::path& root, std::vector<Limit>& limits) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::error_code none;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool has_mixed = fs::exists(mounts / "unified", none);
    if (controllers.empty()) add_groups(has_mixed ? mounts / "unified" : mounts, path, limits);
    if (("," + controllers + ",").find(",pids,") != std::string::npos) add_groups(mounts / "pids", path, limits);
  }
}

std::uint64_t threads_of_user(const fs::path& proc) {
  std::uint64_t all = 0;
  std::error_code none;
  for (fs::directory_iterator entry(proc, none), end; !none && entry != end; entry.increment(none)) {
    if (!number_from(entry->path().filename().string())) continue;
    std::ifstream file(entry->path() / "status");
    std::uint64_t threads = 0;
    bool is_ours = false;
    for (std::string line; std::getline(file, line);) {
      std::istringstream in(line);
      std::string key;
      std::uint64_t value = 0;
      in >> key >> value;
      if (key == "Uid:") is_ours = value == ::getuid();
      if (key == "Threads:") threads = value;
    }
    if (is_ours) all += threads;
  }
  return all;
}

void add_user(const fs::path& root, std::vector<Limit>& limits) {
  rlimit most{};
  if (::getuid() == 0 || ::getrlimit(RLIMIT_NPROC, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return;
  limits.push_back({threads_of_user(root / "proc"), most.rlim_cur, "of this user (RLIMIT_NPROC)",
                    "raise it (ulimit -u, or limits.conf)"});
}

void add_system(const fs::path& root, std::vector<Limit>& limits) {
  std::string word;
  std::ifstream load(root / "proc/loadavg");
  for (int i = 0; i < 4; ++i) load >> word;  // "0.1 0.2 0.3 1/234 5678": of 234 threads one is running
  const std::size_t slash = word.find('/');
  const Number now = slash == std::string::npos ? std::nullopt : number_from(std::string_view(word).substr(slash + 1));
  for (const char* name : {"threads-max", "pid_max"})
    limits.push_back({now, number_in(root / "proc/sys/kernel" / name),
                      std::string("on this machine (/proc/sys/kernel/") + name + ")",
                      std::string("raise it (sysctl kernel.") + name + ")"});
}

/// Empty if the stack of a thread fits into what RLIMIT_AS leaves of the address space.
std::string lack_of_addresses(const fs::path& root) {
  rlimit most{};
  if (::getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return {};
  pthread_attr_t usual;
  std::size_t stack = 0;
  if (::pthread_getattr_default_np(&usual) != 0) return {};
  ::pthread_attr_getstacksize(&usual, &stack);
  ::pthread_attr_destroy(&usual);
  const Number pages = number_in(root / "proc/self/statm");
  if (!pages || *pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + stack < most.rlim_cur) return {};
  return "its stack of " + std::to_string(stack >> 10) + " KiB does not fit into the " +
         std::to_string(most.rlim_cur >> 20) +
         " MiB of address space that this process may have (RLIMIT_AS): raise it (ulimit -v), or make stacks smaller "
         "(ulimit -s)";
}

}  // namespace

std::string reached_thread_limit(const std::string& root) {
  if (std::string lack = lack_of_addresses(root); !lack.empty()) return lack;
  std::vector<Limit> limits;
  add_groups(root, limits);
  add_user(root, limits);
  add_system(root, limits);
  std::string all;
  for (const Limit& one : limits) {
    if (one.reached())
      return "there are " + std::to_string(*one.now) + " processes and threads " + one.what + ", where " +
             std::to_string(*one.most) + " may be: " + one.raise + ", or start fewer ranks";
    if (one.most) all += (all.empty() ? "" : ", ") + std::to_string(*one.most) + " " + one.what;
  }
  return "no limit seems to be reached now; those of processes and threads are " + (all.empty() ? "unknown" : all) +
         ": start fewer ranks, or look at the kernel's log (dmesg)";
}

void refuse_thread(std::string_view purpose, const std::system_error& why) {
  throw Error(Code::resource, "cannot start the thread that " + std::string(purpose) + " (" + why.code().message() +
                                  "): " + reached_thread_limit());
}

}  // namespace tutti
