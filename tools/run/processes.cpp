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

std::vector<Ended> Processes::reap() {
  std::vector<Ended> ended;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Process& p) { return p.running && p.pid == pid; });
    if (found == all_.end()) continue;  // an orphaned descendant of a rank
    if (WIFSTOPPED(status)) {
      stops_.stopped(found->rank, WSTOPSIG(status));
      continue;
    }
    stops_.over(found->rank);
    if (WIFCONTINUED(status)) continue;
    found->running = false;
    found->group_left = kill(-pid, 0) == 0;
    if (!found->group_left) guard_.forget(pid);
    ended.push_back({found->rank, status, {}});
  }
  return ended;
}

void Processes::finish() {
  for (const Process& process : all_)
    if (process.group_left) kill(-process.pid, SIGKILL);
  if (const int left = kill_marked(mark_); left > 0)
    log(LogLevel::info, fmt::format("ended {} processes that the ranks had left behind", left));
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

int Processes::running() const {
  return static_cast<int>(std::count_if(all_.begin(), all_.end(), [](const Process& p) { return p.running; }));
}

pid_t Processes::pid_of(int rank) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Process& p) { return p.rank == rank; });
  return found == all_.end() ? -1 : found->pid;
}

}  // namespace tutti::tools
