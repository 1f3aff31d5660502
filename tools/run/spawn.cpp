// fork(), a few async-signal-safe calls, and execve().
#include "tools/run/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "tools/run/program.hpp"
#include "tools/run/signals.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/open_files.hpp"

namespace tutti::tools {
namespace {

struct Pointers {
  std::vector<char*> words, environment;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

using Cores = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;

/// Returns an affinity mask with one core; null for -1.
Cores only(int core) {
  Cores cores(core < 0 ? nullptr : CPU_ALLOC(core + 1), [](cpu_set_t* set) { CPU_FREE(set); });
  if (cores) {
    CPU_ZERO_S(CPU_ALLOC_SIZE(core + 1), cores.get());
    CPU_SET_S(static_cast<std::size_t>(core), CPU_ALLOC_SIZE(core + 1), cores.get());
  }
  return cores;
}

std::optional<rlimit> limit_of_ranks;  // the limit on descriptors before the launcher raised its own

/// Runs in the child. Must not allocate, because the launcher has a second thread.
[[noreturn]] void become(const RankProcess& process, const Pointers& exec, cpu_set_t* cores, pid_t parent, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  setpgid(0, 0);
  dup2(process.input, 0);
  if (process.output >= 0) dup2(process.output, 1);
  if (process.error >= 0) dup2(process.error, 2);
  if (process.recorder >= 0) fcntl(process.recorder, F_SETFD, 0);
  reset_signals();
  if (limit_of_ranks) setrlimit(RLIMIT_NOFILE, &*limit_of_ranks);
  if (cores == nullptr || sched_setaffinity(0, CPU_ALLOC_SIZE(process.core + 1), cores) == 0)
    execve(process.file.c_str(), exec.words.data(), exec.environment.data());
  const int why = errno;
  static_cast<void>(!write(report, &why, sizeof why));
  _exit(127);
}

}  // namespace

void raise_descriptor_limit(int ranks) {
  rlimit limit = {};
  if (limit_of_ranks || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  raise_limit_of_open_files();
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, 3 * static_cast<rlim_t>(ranks) + 512));
  limit_of_ranks = limit;
}

std::string too_few_descriptors(std::size_t more) {
  constexpr std::size_t own = 24;
  return too_few_open_files(more + own);
}

namespace {

pid_t spawn_once(const RankProcess& process) {
  const Pointers exec = {pointers(process.words), pointers(process.environment)};
  const Cores cores = only(process.core);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -errno;
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(process, exec, cores.get(), parent, report[1]);
  const int forked = pid < 0 ? errno : 0;
  close(report[1]);
  int why = 0;
  ssize_t n = 0;
  if (pid > 0) {
    setpgid(pid, pid);
    while ((n = read(report[0], &why, sizeof why)) < 0 && errno == EINTR) {
    }
  }
  close(report[0]);
  if (pid < 0) return -forked;
  if (n == 0) return pid;  // exec closed the pipe
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return -why;
}

}  // namespace

pid_t spawn(const RankProcess& process) {
  if (names_no_program(process.file)) return -ENOENT;
  const pid_t pid = spawn_once(process);
  if (pid != -ENOEXEC || !is_for_the_shell(process.file)) return pid;
  RankProcess shell = process;
  shell.words.insert(shell.words.begin(), "/bin/sh");
  shell.words[1] = process.file;
  shell.file = "/bin/sh";
  return spawn_once(shell);
}

}  // namespace tutti::tools
