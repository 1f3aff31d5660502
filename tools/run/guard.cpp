// The guard process, and the search for marked processes.
#include "tools/run/guard.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr pid_t goodbye = 0;

/// True if process `pid` was started with `entry` in its environment.
bool has_variable(const std::string& pid, const std::string& entry) {
  const int fd = open(("/proc/" + pid + "/environ").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::string all(1, '\0');
  char block[16384];
  for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) all.append(block, static_cast<std::size_t>(n));
  close(fd);
  all += '\0';
  return all.find('\0' + entry + '\0') != std::string::npos;
}

int kill_once(const std::string& entry) {
  DIR* const folder = opendir("/proc");
  if (!folder) return 0;
  int killed = 0;
  while (const dirent* file = readdir(folder)) {
    const std::string name = file->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = static_cast<pid_t>(std::atol(name.c_str()));
    if (pid != getpid() && has_variable(name, entry) && kill(pid, SIGKILL) == 0) ++killed;
  }
  closedir(folder);
  return killed;
}

[[noreturn]] void stand_guard(int pipe, const std::string& mark) {
  setsid();  // signals to the launcher's group or terminal must not reach the guard
  prctl(PR_SET_NAME, "tutti-guard");
  const int nothing = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
  if (nothing > 2) close(nothing);
  std::vector<pid_t> groups;
  for (;;) {
    pid_t word = goodbye;
    const ssize_t n = read(pipe, &word, sizeof word);
    if (n < 0 && errno == EINTR) continue;
    if (n == sizeof word && word == goodbye) _exit(0);
    if (n != sizeof word) break;
    if (word > 0) groups.push_back(word);
    if (word < 0) std::erase(groups, -word);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  kill_marked(mark);
  _exit(0);
}

}  // namespace

int kill_marked(const std::string& mark) {
  const std::string entry = "TUTTI_STARTER=" + mark;
  int all = 0;
  // The next pass finds a process that was forked during this one.
  for (int look = 0; look < 10; ++look) {
    const int killed = kill_once(entry);
    if (killed == 0) break;
    all += killed;
    usleep(2000);
  }
  return all;
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(task.path() / "children");
    if (!list) return {};
    for (pid_t pid; list >> pid;) found.push_back(pid);
  }
  return found;
}

Guard::Guard(const std::string& mark) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(Code::resource, std::string("cannot make a pipe for the guard: ") + std::strerror(errno));
  pid_ = fork();
  if (pid_ < 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    throw Error(Code::resource, std::string("cannot start the guard process: ") + std::strerror(why));
  }
  if (pid_ == 0) {
    close(ends[1]);
    sigset_t none;
    sigemptyset(&none);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    stand_guard(ends[0], mark);
  }
  close(ends[0]);
  pipe_ = Descriptor(ends[1]);
}

void Guard::tell(pid_t word) {
  while (write(pipe_.fd(), &word, sizeof word) < 0 && errno == EINTR) {
  }
}

Guard::~Guard() {
  if (std::uncaught_exceptions() == exceptions_) dismiss();
}

void Guard::dismiss() {
  if (pid_ < 0) return;
  tell(goodbye);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace tutti::tools
