// Checks of the memory, the cores and the clocks.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "tools/doctor/facts.hpp"
#include "tools/doctor/measurements.hpp"
#include "tools/doctor/verdicts.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/host.hpp"
#include "transports/shm/settings.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {
namespace {

using enum Check::Verdict;

/// Makes a memfd, writes to it and seals it. Returns 0, or an errno with the call that failed in `call`.
int try_memfd(const char*& call) {
  const Descriptor file(::memfd_create("tutti-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  call = "memfd_create";
  if (!file) return errno;
  call = "writing to it";
  if (::ftruncate(file.fd(), 4096) != 0 || ::pwrite(file.fd(), "tutti", 5, 0) != 5) return errno;
  call = "sealing it";
  return ::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 ? 0 : errno;
}

Check memfd_check(int error, const char* call, const std::string& folder) {
  if (error == 0) return {good, "shared memory", "memfd_create works, and its files can be sealed", ""};
  const bool has_folder = ::access(folder.c_str(), W_OK | X_OK) == 0;
  return {has_folder ? slower : wrong, "shared memory", fmt::format("{} is refused: {}", call, std::strerror(error)),
          has_folder ? "Allow memfd_create in the seccomp filter; until then shm uses files in " + folder + "."
                     : "Allow memfd_create in the seccomp filter, or name a folder for shm by TUTTI_SHM_DIR."};
}

std::string governor_of(int core, const char* file) {
  return line_of(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/{}", core, file));
}

CoreFacts core_facts() {
  CoreFacts facts;
  const std::vector<int> cores = allowed_cores();
  facts.allowed = cores.empty() ? online_cores() : static_cast<int>(cores.size());
  facts.usable = usable_cores();
  facts.online = online_cores();
  facts.quota = cgroup_cores(whole_text("/proc/self/cgroup"), "/sys/fs/cgroup");
  std::set<std::string> governors;
  for (const int core : cores) {
    const auto siblings =
        parse_core_list(line_of(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core)));
    facts.threads_of_core = std::max(facts.threads_of_core, static_cast<int>(siblings.size()));
    if (const std::string governor = governor_of(core, "scaling_governor"); !governor.empty())
      governors.insert(governor);
  }
  if (!governors.empty()) facts.governor = governors.contains("powersave") ? "powersave" : *governors.begin();
  if (!cores.empty()) facts.driver = governor_of(cores.front(), "scaling_driver");
  return facts;
}

double share(const ProcessorTimes& times) {
  return times.all == 0 ? 0 : static_cast<double>(times.stolen) / static_cast<double>(times.all);
}

/// The least time of several series of readings, so that an interruption does not count.
double nanoseconds_of_a_reading() {
  constexpr int series = 20, readings = 2000;
  double least = 1e9;
  for (int i = 0; i < series; ++i) {
    const auto begin = Clock::now();
    for (int k = 0; k < readings - 1; ++k) static_cast<void>(Clock::now());
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / readings);
  }
  return least;
}

}  // namespace

std::vector<Check> memory_checks(const Settings& settings) {
  const std::string folder = settings.of(shm_dir), meminfo = whole_text("/proc/meminfo");
  const char* call = nullptr;
  const int error = try_memfd(call);
  std::vector<Check> checks = {memfd_check(error, call, folder)};
  for (const std::string& place : std::set<std::string>{"/dev/shm", folder}) {
    struct statvfs about {};
    if (::statvfs(place.c_str(), &about) == 0)
      checks.push_back(judge_shared_space(place, std::uint64_t{about.f_bavail} * about.f_frsize, error == 0));
    else
      checks.push_back({error == 0 ? good : wrong, "space of " + place, std::strerror(errno),
                        error == 0 ? "" : "Name a folder that exists by TUTTI_SHM_DIR."});
  }
  checks.push_back(judge_memory(memory_field(meminfo, "MemAvailable").value_or(0),
                                memory_field(meminfo, "MemTotal").value_or(0),
                                group_limit(whole_text("/proc/self/cgroup"), "/sys/fs/cgroup", "memory")));
  const std::string pages = "/sys/kernel/mm/transparent_hugepage/";
  checks.push_back(
      judge_huge_pages(chosen_word(line_of(pages + "enabled")), chosen_word(line_of(pages + "shmem_enabled"))));
  return checks;
}

std::vector<Check> core_checks() {
  const CoreFacts facts = core_facts();
  const ProcessorTimes before = processor_times(whole_text("/proc/stat"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const ProcessorTimes after = processor_times(whole_text("/proc/stat"));
  double load = 0;
  ::getloadavg(&load, 1);
  return {judge_cores(facts), judge_frequency(facts), judge_load(load, facts.online),
          judge_steal(share({after.all - before.all, after.stolen - before.stolen}), share(after))};
}

std::vector<Check> clock_checks() {
  timex time{};
  const int state = ::adjtimex(&time);
  const bool synchronised = state != TIME_ERROR && (time.status & STA_UNSYNC) == 0;
  return {judge_clock(line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                      nanoseconds_of_a_reading()),
          judge_synchronisation(state >= 0, synchronised, static_cast<double>(time.esterror) * 1e-6)};
}

}  // namespace tutti::tools
