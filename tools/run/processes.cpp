// Starting, signalling and reaping the ranks of this host.
#include "tools/run/processes.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "collectives/doctor/opinion.hpp"
#include "transports/core/host.hpp"
#include "transports/core/recorder.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {

void Processes::bind() {
  cores_ = binding_order(allowed_cores());
  if (cores_.empty()) log(LogLevel::warn, "--bind core: the affinity mask cannot be read; the ranks are not bound");
}

void Processes::record(int ranks, const std::string& setting, const std::string& job) {
  if (setting == "off") return;
  try {
    const Descriptor file = make_recorder_file(ranks, setting == "on" ? std::string() : setting, job);
    recorder_ = Inherited(fcntl(file.fd(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  } catch (const Error& error) {
    if (error.code() == Code::invalid) throw;
    log(LogLevel::info, fmt::format("{}; each rank makes its own", error.what()));
  }
}

pid_t Processes::start(int rank, RankProcess process) {
  all_.push_back({.rank = rank});
  return launch(all_.size() - 1, std::move(process));
}

pid_t Processes::restart(int rank, RankProcess process) {
  const auto found = std::ranges::find(all_, rank, &Process::rank);
  if (found == all_.end() || found->running) return -ESRCH;
  if (std::exchange(found->group_left, false)) {
    kill(-found->pid, SIGKILL);
    guard_.forget(found->pid);
  }
  found->pid = -1;
  const auto index = static_cast<std::size_t>(found - all_.begin());
  if (recorder_.fd() >= 0) found->is_recorded = clear_recorder_slot(recorder_.fd(), static_cast<int>(index));
  told_ = 0;
  return launch(index, std::move(process));
}

pid_t Processes::launch(std::size_t index, RankProcess process) {
  if (!cores_.empty()) process.core = cores_[index % cores_.size()];
  if (recorder_.fd() >= 0) {
    process.recorder = recorder_.fd();
    process.environment.push_back(fmt::format("{}={}", recorder_variable, recorder_.fd()));
  }
  const pid_t pid = spawn(process);
  if (pid < 0) return pid;
  running_[pid] = index;
  Process& it = all_[index];
  it.pid = pid;
  it.running = it.group_left = true;
  guard_.watch(pid);
  return pid;
}

void Processes::signal(int signal) {
  stops_.sent(signal);
  for (const Process& process : all_) {
    if (!process.running) continue;
    kill(-process.pid, signal);
    if (signal == SIGTERM) kill(-process.pid, SIGCONT);
  }
}

std::optional<Ended> Processes::reaped(pid_t pid, int status) {
  const auto found = running_.find(pid);
  if (found == running_.end()) return std::nullopt;  // the process is an orphaned descendant of a rank
  Process& process = all_[found->second];
  if (WIFSTOPPED(status)) {
    stops_.stopped(process.rank, WSTOPSIG(status));
    return std::nullopt;
  }
  stops_.over(process.rank);
  if (WIFCONTINUED(status)) return std::nullopt;
  process.running = false;
  process.group_left = kill(-pid, 0) == 0;
  if (!process.group_left) guard_.forget(pid);
  const std::size_t index = found->second;
  running_.erase(found);
  return Ended{process.rank, status, {}, last_words(index, status)};
}

/// What the records say of a process that a signal has killed. The first ones are enough: the others follow from them.
std::string Processes::last_words(std::size_t index, int status) {
  constexpr int most = 4;
  const bool died = WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGINT;
  const bool told = recorder_.fd() >= 0 && all_[index].is_recorded;
  return died && told && told_++ < most ? doctor::last_words(recorder_.fd(), index) : std::string();
}

std::vector<Ended> Processes::reap() {
  std::vector<Ended> ended;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;)
    if (const auto end = reaped(pid, status)) ended.push_back(*end);
  return ended;
}

/// Returns true if this process has no children but its guard and `others`. It adopts ranks' orphaned descendants.
bool Processes::alone(const std::vector<pid_t>& others) const {
  const std::vector<pid_t> children = children_of_this_process();
  return !children.empty() && std::all_of(children.begin(), children.end(), [&](pid_t child) {
    return child == guard_.pid() || std::find(others.begin(), others.end(), child) != others.end();
  });
}

void Processes::finish(const std::vector<pid_t>& others) {
  for (const Process& process : all_)
    if (process.group_left) kill(-process.pid, SIGKILL);
  if (alone(others)) return;
  if (const int left = kill_marked(mark_); left > 0)
    log(LogLevel::info, fmt::format("ended {} processes that the ranks had left behind", left));
}

pid_t Processes::pid_of(int rank) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Process& p) { return p.rank == rank; });
  return found == all_.end() ? -1 : found->pid;
}

}  // namespace tutti::tools
