#include "engine/data/formats/trial.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "engine/data/files.hpp"

namespace tutti::engine {
namespace {

constexpr rlim_t seconds = 3;           // of processor time
constexpr unsigned longest_wait = 120;  // seconds

/// Lets the child end without output at a crash or a limit, whatever signal handlers the program has set.
void prepare_for_the_worst() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGALRM}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0}, time{seconds, seconds};
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_CPU, &time);
  alarm(longest_wait);
  if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

}  // namespace

void try_in_child(const std::filesystem::path& file, const std::string& library, const std::function<void()>& reading) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    prepare_for_the_worst();
    try {
      reading();
    } catch (...) {  // the parent process will throw the same error and report it
    }
    _exit(0);
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
  if (ended < 0 || status == 0) return;  // ended < 0: something else in the program waited for the child
  if (WIFSIGNALED(status) &&
      (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM))
    refuse(file, library + " does not come to an end with it; it is corrupt, fetch it again");
  refuse(file, library + " fails at it" +
                   (WIFSIGNALED(status) ? std::string(" (") + strsignal(WTERMSIG(status)) + ")" : std::string()) +
                   "; it is corrupt, fetch it again");
}

}  // namespace tutti::engine
