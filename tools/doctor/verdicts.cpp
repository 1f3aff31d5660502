#include "tools/doctor/verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace tutti::tools {
namespace {

using enum Check::Verdict;

constexpr std::uint64_t unlimited = UINT64_MAX;
constexpr std::uint64_t mib = 1 << 20, gib = 1 << 30;

std::string limit_text(std::uint64_t value) { return value == unlimited ? "unlimited" : std::to_string(value); }

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// The last number of a line such as "4096 131072 6291456"; 0 if there is none.
std::uint64_t last_number(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::uint64_t last = 0;
  for (std::uint64_t number = 0; words >> number;) last = number;
  return last;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  for (const auto& [unit, name] :
       {std::pair{gib * 1024, "TiB"}, {gib, "GiB"}, {mib, "MiB"}, {std::uint64_t{1024}, "KiB"}})
    if (bytes >= unit) return fmt::format("{:.3g} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  return fmt::format("{} bytes", bytes);
}

Check judge_open_files(std::uint64_t soft, std::uint64_t hard) {
  constexpr std::uint64_t own = 64, of_peer = 2, enough = 4096;
  const std::string limits =
      fmt::format("{} may be open at once, and up to {} on request", limit_text(soft), limit_text(hard));
  if (hard >= enough) return {good, "open files", limits, ""};
  const std::uint64_t ranks = hard > own ? (hard - own) / of_peer : 0;
  return {ranks < 2 ? wrong : slower, "open files", fmt::format("{}: enough for about {} ranks", limits, ranks),
          fmt::format("Raise the hard limit where the job is started: ulimit -Hn {}.", 65536)};
}

Check judge_locked_memory(std::uint64_t bytes, bool has_rdma) {
  const std::string found = bytes == unlimited ? "unlimited" : size_text(bytes);
  if (!has_rdma) return {good, "locked memory", found + "; only RDMA needs it", ""};
  if (bytes == unlimited) return {good, "locked memory", found, ""};
  return {bytes < 64 * mib ? wrong : slower, "locked memory", found + " of each process can be given to RDMA",
          "Set it to unlimited where the job is started: ulimit -l unlimited, or memlock in limits.conf."};
}

Check judge_processes(const Room& room, int cores) {
  if (room.limit.empty()) return {good, "processes and threads", "no limit is known", ""};
  const auto needed = static_cast<std::uint64_t>(std::max(cores, 1)) * 16;  // a rank has a few threads
  const std::string found = fmt::format("{} more can be started ({})", room.more, room.limit);
  if (room.more >= needed) return {good, "processes and threads", found, ""};
  return {room.more < needed / 8 ? wrong : slower, "processes and threads", found,
          "Raise that limit (ulimit -u, docker --pids-limit, TasksMax= of systemd), or end what is not needed."};
}

Check judge_cores(const CoreFacts& facts) {
  std::string found =
      fmt::format("{} of {} usable", facts.usable, plural(static_cast<std::uint64_t>(facts.online), "core"));
  if (facts.threads_of_core > 1)
    found += fmt::format(", {} hardware threads to a physical core", facts.threads_of_core);
  if (facts.allowed < facts.online) found += fmt::format("; the affinity mask permits {}", facts.allowed);
  const bool has_quota = std::isfinite(facts.quota);
  if (has_quota) found += fmt::format("; the control group has a quota of {:.3g}", facts.quota);
  if (facts.usable >= facts.online && (!has_quota || facts.quota >= facts.online)) return {good, "cores", found, ""};
  return {slower, "cores", found,
          has_quota && facts.quota < facts.allowed
              ? "Start no more ranks than the quota has cores, or raise it (docker --cpus, the pod's limit)."
              : "Start no more ranks than usable cores, or start tutti without taskset, cpuset or binding."};
}

Check judge_frequency(const CoreFacts& facts) {
  if (facts.governor.empty()) return {good, "core frequency", "not told here, as in most virtual machines", ""};
  const std::string found =
      fmt::format("governor {}{}", facts.governor, facts.driver.empty() ? "" : " of " + facts.driver);
  const bool scales_itself = facts.driver.starts_with("intel_pstate") || facts.driver.starts_with("amd-pstate-epp");
  const bool is_slow = facts.governor == "powersave" && !scales_itself;
  return {is_slow ? slower : good, "core frequency", found,
          is_slow ? "Choose the fast governor: cpupower frequency-set -g performance." : ""};
}

Check judge_load(double load, int online) {
  const std::string found = fmt::format("{:.2f} on average in the last minute, for {}", load,
                                        plural(static_cast<std::uint64_t>(online), "core"));
  const bool busy = load > 0.5 * online;
  return {busy ? slower : good, "load", found,
          busy ? "See with top what runs here, and end it or wait: ranks that share a core with it are late." : ""};
}

Check judge_steal(double now, double since_start) {
  const std::string found =
      fmt::format("{} now, {} since the start, of the time of the cores", percent(now), percent(since_start));
  const bool busy = now > 0.02 || since_start > 0.05;
  return {busy ? slower : good, "time taken by neighbours", found,
          busy ? "Other guests of this machine take its cores (steal time): move to a host of your own." : ""};
}

Check judge_clock(const std::string& source, double nanoseconds) {
  const std::string found =
      fmt::format("{}, {:.0f} ns to read it", source.empty() ? "unknown source" : source, nanoseconds);
  const bool is_slow = nanoseconds > 200;
  return {is_slow ? slower : good, "clock", found,
          is_slow ? "Give the kernel a fast clock source (clocksource=tsc), if the processor's is reliable." : ""};
}

Check judge_synchronisation(bool known, bool synchronised, double error) {
  if (!known) return {good, "time of day", "whether it is synchronised is not told here", ""};
  if (synchronised) return {good, "time of day", fmt::format("synchronised, to {:.3g} ms", 1e3 * error), ""};
  return {slower, "time of day", "not synchronised",
          "Start chrony or another NTP service, as times of several hosts in logs and traces cannot be compared."};
}

Check judge_huge_pages(const std::string& enabled, const std::string& shared) {
  if (enabled.empty()) return {good, "huge pages", "this kernel has none that are transparent", ""};
  const std::string found =
      fmt::format("{} for a process's own memory, {} for shared memory", enabled, shared.empty() ? "unknown" : shared);
  const bool off = enabled == "never";
  return {off ? slower : good, "huge pages", found,
          off ? "Let programs ask for them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled." : ""};
}

Check judge_memory(std::uint64_t available, std::uint64_t total, const GroupLimit& group) {
  std::string found = fmt::format("{} of {} free", size_text(available), size_text(total));
  std::uint64_t left = available;
  if (group.most && *group.most < total) {
    const std::uint64_t used = std::min(group.now.value_or(0), *group.most);
    left = std::min(left, *group.most - used);
    found += fmt::format("; the control group may have {}, and uses {}", size_text(*group.most), size_text(used));
  }
  const bool scarce = left < gib;
  return {!scarce          ? good
          : left < gib / 8 ? wrong
                           : slower,
          "memory", found,
          scarce ? "Free memory, or raise the limit of the container: where it ends, the kernel kills ranks." : ""};
}

Check judge_shared_space(const std::string& folder, std::uint64_t free_bytes, bool has_memfd) {
  const std::string found = fmt::format("{} free{}", size_text(free_bytes),
                                        has_memfd ? "; tutti uses it only where memfd_create is refused" : "");
  const bool scarce = free_bytes < 64 * mib;
  if (!scarce || has_memfd) return {good, "space of " + folder, found, ""};
  return {free_bytes < 8 * mib ? wrong : slower, "space of " + folder, found,
          "Give it more (docker --shm-size=1g, mount -o remount,size=50%), or name another folder by TUTTI_SHM_DIR."};
}

Check judge_kernel(const std::string& release) {
  unsigned major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) != 2) return {good, "kernel", release, ""};
  const bool old = std::pair(major, minor) < std::pair(5u, 11u);
  return {old ? slower : good, "kernel", "Linux " + release,
          old ? "Update to Linux 5.11 or newer, which has precise waits and descriptors of processes." : ""};
}

Check judge_tcp_buffers(std::string_view rmem, std::string_view wmem) {
  const std::uint64_t receive = last_number(rmem), send = last_number(wmem);
  if (receive == 0 || send == 0) return {good, "tcp buffers", "not told here", ""};
  const std::string found = fmt::format("up to {} to receive and {} to send", size_text(receive), size_text(send));
  const bool scarce = std::min(receive, send) < mib;
  return {scarce ? slower : good, "tcp buffers", found,
          scarce ? "Raise the last numbers of net.ipv4.tcp_rmem and net.ipv4.tcp_wmem to 4 MiB or more." : ""};
}

Check judge_backlog(std::uint64_t most) {
  const bool scarce = most < 1024;
  return {scarce ? slower : good, "connections that wait", fmt::format("{} may wait at a listening socket", most),
          scarce ? "Large jobs connect all at once: raise it by sysctl net.core.somaxconn=4096." : ""};
}

Check judge_ports(std::string_view range) {
  std::istringstream words{std::string(range)};
  std::uint64_t first = 0, last = 0;
  if (!(words >> first >> last) || last < first) return {good, "ports", "their range is not told here", ""};
  const std::uint64_t count = last - first + 1;
  const bool scarce = count < 8192;
  return {scarce ? slower : good, "ports", fmt::format("{} for new connections, {} to {}", count, first, last),
          scarce ? "Widen them: sysctl net.ipv4.ip_local_port_range='32768 60999'." : ""};
}

Check judge_attach(int error, const std::string& scope) {
  const std::string shown = scope.empty() ? "" : " (kernel.yama.ptrace_scope is " + scope + ")";
  if (error == 0) return {good, "reading other ranks' memory", "works" + shown, ""};
  const bool yama = number_in(scope).value_or(0) > 0;
  return {slower, "reading other ranks' memory", fmt::format("refused: {}{}", std::strerror(error), shown),
          yama ? "Set sysctl kernel.yama.ptrace_scope=0; until then shm copies large scatters twice."
               : "In a container add --cap-add=SYS_PTRACE; until then shm copies large scatters twice."};
}

}  // namespace tutti::tools
