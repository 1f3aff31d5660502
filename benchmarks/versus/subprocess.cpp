// fork(), two pipes, and a time limit.
#include "benchmarks/versus/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Owns both ends of a pipe. It uses no Descriptors, because the fork guard would close them in the child.
struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error(Code::resource, "cannot make a pipe: " + std::generic_category().message(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(std::size_t which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> merged(const Environment& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

pid_t start(const Command& command, const Pipe& out, const Pipe& err) {
  std::vector<std::string> words = command.words, environment = merged(command.environment);
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw Error(Code::resource, "cannot fork: " + std::generic_category().message(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);  // so that the whole group can be signalled
  if (getppid() != parent) _exit(127);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(out.ends[1], 1) < 0 || dup2(err.ends[1], 2) < 0) _exit(127);
  execvpe(argv[0], argv.data(), envp.data());
  const std::string why = command.words[0] + ": " + std::generic_category().message(errno) + "\n";
  (void)!write(2, why.data(), why.size());
  _exit(127);
}

int reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Reads what has arrived; returns false at the end.
bool take(int fd, std::string& text, bool show) {
  char chunk[4096];
  const ssize_t n = read(fd, chunk, sizeof chunk);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  text.append(chunk, static_cast<std::size_t>(n));
  if (show && n > 0) (void)!write(2, chunk, static_cast<std::size_t>(n));
  return n > 0;
}

bool says_something(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c); }) > 5;
}

}  // namespace

std::string Outcome::why() const {
  std::string said;
  std::istringstream lines(err.empty() ? out : err);
  for (std::string line; said.empty() && std::getline(lines, line);)
    if (says_something(line)) said = line.substr(line.find_first_not_of(" \t"), 200);
  const std::string how = silent            ? "it printed nothing for too long and was ended"
                          : exit_code > 128 ? "it was killed by signal " + std::to_string(exit_code - 128)
                                            : "exit code " + std::to_string(exit_code);
  return how + (said.empty() ? "" : ", \"" + said + "\"");
}

Outcome run_to_end(const Command& command, double patience, bool show) {
  Pipe out, err;
  const pid_t child = start(command, out, err);
  out.close_end(1);
  err.close_end(1);
  Outcome outcome;
  const auto span = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience));
  auto limit = Clock::now() + span;
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    pollfd ready[2] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
    poll(ready, 2, 100);
    if (ready[0].revents != 0 && !take(out.ends[0], outcome.out, false)) out.close_end(0);
    if (ready[1].revents != 0 && !take(err.ends[0], outcome.err, show)) err.close_end(0);
    if (ready[0].revents != 0 || ready[1].revents != 0) {
      if (!outcome.silent) limit = Clock::now() + span;
    } else if (Clock::now() > limit) {
      kill(-child, outcome.silent ? SIGKILL : SIGTERM);  // gives a launcher time to end its ranks
      if (outcome.silent) break;                         // its ranks may keep the pipes open for ever
      outcome.silent = true;
      limit = Clock::now() + std::chrono::seconds(5);
    }
  }
  outcome.exit_code = reap(child);
  return outcome;
}

std::string find_executable(const std::string& name) {
  const auto runs = [](const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return runs(name) ? std::filesystem::absolute(name).string() : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!name.empty() && runs(std::filesystem::path(folder) / name)) return std::filesystem::path(folder) / name;
  return "";
}

}  // namespace tutti::bench
