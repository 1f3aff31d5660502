#include "collectives/doctor/patients.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "collectives/doctor/proc_text.hpp"
#include "collectives/doctor/whereabouts.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/host.hpp"
#include "transports/core/process.hpp"
#include "transports/core/recorder.hpp"

namespace tutti::doctor {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// Calls `see` with the path of each descriptor of a process that is a recorder's.
template <class See>
void each_recorder_of(pid_t process, See see) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd";
  const Folder folder(::opendir(path.c_str()));
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    std::array<char, 512> target;
    const ssize_t length = ::readlinkat(::dirfd(folder.get()), entry->d_name, target.data(), target.size());
    if (length <= 0) continue;
    if (std::string_view(target.data(), static_cast<std::size_t>(length)).find(recorder_name) != std::string_view::npos)
      see(path + "/" + entry->d_name);
  }
}

std::vector<pid_t> own_processes() {
  std::vector<pid_t> processes;
  const Folder folder(::opendir("/proc"));
  if (!folder) return processes;
  while (const dirent* const entry = ::readdir(folder.get())) {
    struct stat status = {};
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (number > 0 && *end == '\0' && ::fstatat(::dirfd(folder.get()), entry->d_name, &status, 0) == 0 &&
        status.st_uid == ::geteuid())
      processes.push_back(static_cast<pid_t>(number));
  }
  return processes;
}

/// Collects patients by the names of their jobs.
class Jobs {
 public:
  /// Reads a file, unless it has been read already. `holder` -1: no process.
  void add(const std::string& path, pid_t holder) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status = {};
    if (!file || ::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    const auto [known, is_new] = files_.try_emplace({status.st_dev, status.st_ino});
    if (is_new)
      for (Patient& one : patients_in(file.fd())) {
        one.source = path;
        known->second.insert(one.recording.job);
        FoundJob& job = jobs_[one.recording.job];
        job.name = one.recording.job;
        job.patients.push_back(std::move(one));
      }
    if (holder >= 0)
      for (const std::string& job : known->second) jobs_[job].holders.push_back(holder);
  }
  std::vector<FoundJob> take() {
    std::vector<FoundJob> all;
    for (auto& [_, job] : jobs_) all.push_back(std::move(job));
    return all;
  }

 private:
  std::map<std::pair<dev_t, ino_t>, std::set<std::string>> files_;  // with the jobs in each
  std::map<std::string, FoundJob> jobs_;
};

/// The process that started another one and lives; 0: there is none that is visible.
pid_t parent_of(pid_t process) {
  const std::string text = text_of(proc_path(process, "stat"), 1024);
  const std::size_t name_end = text.rfind(") ");  // the name may contain any character
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return static_cast<pid_t>(std::strtol(text.c_str() + name_end + 4, nullptr, 10));
}

bool descends_from(pid_t process, pid_t ancestor) {
  for (int steps = 0; process > 1 && steps < 1000; ++steps, process = parent_of(process))
    if (process == ancestor) return true;
  return false;
}

bool is_same_process(const Recording& recording) {
  const auto pid = static_cast<pid_t>(recording.pid);
  const std::uint64_t started = process_start(pid);
  return started != 0 && (recording.started == 0 || started == recording.started);
}

/// Reads the recording of a process that has ended since it was read, so that it has the last calls.
void read_again(Patient& patient) {
  const Descriptor file(patient.source.empty() ? -1 : ::open(patient.source.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return;
  for (Recording& one : read_recordings(file.fd()))
    if (one.rank == patient.recording.rank && one.pid == patient.recording.pid) patient.recording = std::move(one);
}

}  // namespace

std::vector<Patient> patients_in(int file) {
  std::vector<Patient> patients;
  for (Recording& one : read_recordings(file)) patients.push_back({std::move(one)});
  return patients;
}

std::vector<FoundJob> find_jobs() {
  Jobs jobs;
  for (const pid_t process : own_processes())
    each_recorder_of(process, [&](const std::string& path) { jobs.add(path, process); });
  return jobs.take();
}

std::vector<FoundJob> find_jobs(const std::string& which) {
  std::error_code ignored;
  if (std::filesystem::is_directory(which, ignored)) return jobs_in(which);
  std::vector<FoundJob> jobs = find_jobs();
  pid_t pid = -1;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), pid);
  if (error != std::errc() || end != which.data() + which.size()) pid = -1;
  const auto is_meant = [pid](pid_t process) { return pid > 0 && descends_from(process, pid); };
  std::erase_if(jobs, [&](const FoundJob& job) {
    return !job.name.starts_with(which) && std::ranges::none_of(job.holders, is_meant) &&
           std::ranges::none_of(job.patients, [&](const Patient& one) {
             return one.recording.pid == pid || one.recording.program == which;
           });
  });
  return jobs;
}

std::string stopped_helpers(const FoundJob& job) {
  std::string text;
  for (const pid_t process : job.holders) {
    using State = Whereabouts::State;
    const State state = process_state(process);
    if (state != State::stopped && state != State::traced) continue;
    if (std::ranges::any_of(job.patients, [&](const Patient& one) { return one.recording.pid == process; })) continue;
    text += (text.empty() ? "" : " ") + std::string("Process ") + std::to_string(process) +
            " of the job, its launcher or an agent, is " +
            (state == State::stopped ? "stopped by a signal: continue it with SIGCONT." : "held by a debugger.");
  }
  return text;
}

std::vector<FoundJob> jobs_in(const std::string& folder) {
  Jobs jobs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with(recorder_name)) jobs.add(entry.path(), -1);
  if (error) throw Error(Code::invalid, "the folder '" + folder + "' cannot be read: " + error.message());
  return jobs.take();
}

void look_at(std::vector<Patient>& patients, Look how) {
  const std::string here = machine_identity();
  for (Patient& one : patients) {
    if (one.recording.machine != here) continue;
    one.life = is_same_process(one.recording) ? Patient::Life::lives : Patient::Life::gone;
    if (one.life == Patient::Life::gone) {
      read_again(one);
      continue;
    }
    const auto pid = static_cast<pid_t>(one.recording.pid);
    const Whereabouts found = how == Look::at_places ? whereabouts_of(pid) : Whereabouts{.state = process_state(pid)};
    using State = Whereabouts::State;
    if (found.state == State::gone || found.state == State::zombie) {
      one.life = Patient::Life::gone;
      read_again(one);
    }
    if (found.state == State::stopped || found.state == State::traced) one.life = Patient::Life::stopped;
    one.process = describe(found);
  }
}

}  // namespace tutti::doctor
