// Starting, signalling and reaping the ranks of this host.
#include "tools/run/processes.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>

#include "transports/core/host.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {

void Processes::bind() {
  cores_ = binding_order(allowed_cores());
  if (cores_.empty()) log(LogLevel::warn, "--bind core: the affinity mask cannot be read; the ranks are not bound");
}

pid_t Processes::start(int rank, RankProcess process) {
  if (!cores_.empty()) process.core = cores_[all_.size() % cores_.size()];
  const pid_t pid = spawn(process);
  if (pid < 0) return pid;
  running_[pid] = all_.size();
  all_.push_back({.rank = rank, .pid = pid, .running = true});
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
  running_.erase(found);
  return Ended{process.rank, status, {}};
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
