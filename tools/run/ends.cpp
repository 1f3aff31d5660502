#include "tools/run/ends.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <cstring>
#include <string_view>

namespace tutti::tools {

int exit_code_of(const Ended& end) {
  if (!end.lost.empty()) return exit_host_lost;
  return WIFSIGNALED(end.status) ? exit_signal_base + WTERMSIG(end.status) : WEXITSTATUS(end.status);
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : "no name";
}

std::string how_it_ended(const Ended& end, const char* verb) {
  if (!end.unstarted.empty()) return "could not be started again: " + end.unstarted;
  if (!end.lost.empty())
    return fmt::format("{} lost with {} host: {}", verb, verb == std::string_view("were") ? "their" : "its", end.lost);
  if (!WIFSIGNALED(end.status)) return fmt::format("exited with code {}", WEXITSTATUS(end.status));
  const int signal = WTERMSIG(end.status);
  return fmt::format("{} killed by signal {} ({}){}", verb, signal, signal_name(signal),
                     WCOREDUMP(end.status) ? ", core dumped" : "");
}

}  // namespace tutti::tools
