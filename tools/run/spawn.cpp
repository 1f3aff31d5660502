// fork, a few calls that are safe after it, exec.
#include "tools/run/spawn.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "transports/core/descriptor.hpp"

namespace tutti::tools {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// In the child: nothing here may allocate, for the launcher has a second thread.
[[noreturn]] void become(const RankProcess& process, char** words, char** environment, pid_t parent, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before prctl()
  setpgid(0, 0);
  dup2(process.input, 0);
  if (process.output >= 0) dup2(process.output, 1);
  if (process.error >= 0) dup2(process.error, 2);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &process.mask, nullptr);
  execve(process.file.c_str(), words, environment);
  const int why = errno;
  static_cast<void>(!write(report, &why, sizeof why));
  _exit(127);
}

}  // namespace

pid_t spawn(const RankProcess& process) {
  std::vector<char*> words = pointers(process.words), environment = pointers(process.environment);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return -errno;
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(process, words.data(), environment.data(), parent, report[1]);
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
  if (n == 0) return pid;  // closed by exec
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return -why;
}

}  // namespace tutti::tools
