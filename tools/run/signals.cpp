// The signalfd, and the setup of a process that has children.
#include "tools/run/signals.hpp"

#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/status.hpp"

namespace tutti::tools {

void reset_signals() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now = {};
    if (signal == SIGHUP || sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) continue;
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

Signals::Signals() {
  reset_signals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD})
    sigaddset(&handled, signal);
  sigprocmask(SIG_SETMASK, &handled, nullptr);
  fd_ = Descriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw Error(Code::resource, std::string("signalfd: ") + std::strerror(errno));
}

std::optional<int> Signals::next() {
  signalfd_siginfo info = {};
  if (read(fd_.fd(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tutti::tools
