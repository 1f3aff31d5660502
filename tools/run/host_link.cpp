// Starts an agent, and reports how it ended.
#include "tools/run/host_link.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tools/command.hpp"
#include "tools/run/addresses.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/program.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds until_reaped(2);  // a remote start command may close its pipes shortly before it ends
constexpr std::size_t most_said = 64 << 10;

std::string self() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry; ++entry) lines.emplace_back(*entry);
  return lines;
}

/// The last line that is not blank; login banners come before it.
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) < ' '; });
    if (line.find_first_not_of(' ') != line.npos) last = line;
  }
  return last;
}

}  // namespace

std::vector<std::string> remote_words(const std::string& command, const std::string& host) {
  std::istringstream rest(command);
  std::vector<std::string> words;
  bool named = false;
  constexpr std::string_view mark = "{host}";
  for (std::string word; rest >> word;) {
    for (std::size_t at; (at = word.find(mark)) != word.npos; named = true) word.replace(at, mark.size(), host);
    words.push_back(word);
  }
  if (!named) words.push_back(host);
  return words;
}

std::string HostLink::start(const Job& job) {
  remote_ = !is_this_host(host_.name);
  RankProcess process;
  if (remote_) process.words = remote_words(job.remote_start, host_.name);
  shown_ = fmt::format("{}", fmt::join(process.words, " "));
  process.words.push_back(remote_ && !job.remote_tutti.empty() ? job.remote_tutti : self());
  process.words.push_back("agent");
  process.file = find_executable(process.words.front());
  if (process.file.empty())
    return fmt::format(
        "cannot run '{}', which is to start the ranks on other hosts: {}; name another command by "
        "--remote-start",
        process.words.front(), errno == ENOENT ? "no such program here or on PATH" : std::strerror(errno));
  process.environment = own_environment();
  int pipes[3][2];
  for (auto& pipe : pipes)
    if (pipe2(pipe, O_CLOEXEC) != 0) return fmt::format("cannot make a pipe: {}", std::strerror(errno));
  const Inherited ends[3] = {Inherited(pipes[0][0]), Inherited(pipes[1][1]), Inherited(pipes[2][1])};
  channel_ = std::make_unique<Channel>(Descriptor(pipes[1][0]), Descriptor(pipes[0][1]), std::string(agent_greeting));
  errors_ = Descriptor(pipes[2][0]);
  fcntl(errors_.fd(), F_SETFL, fcntl(errors_.fd(), F_GETFL) | O_NONBLOCK);
  process.input = ends[0].fd();
  process.output = ends[1].fd();
  process.error = ends[2].fd();
  started_ = Clock::now();
  pid_ = spawn(process);
  if (pid_ < 0) return fmt::format("cannot run {}: {}", process.file, why_not_executed(process.file, -pid_));
  return {};
}

void HostLink::kill() {
  if (pid_ > 0 && !status_) ::kill(-pid_, SIGKILL);
  finish();
}

void HostLink::finish() {
  over_ = true;
  read_error();
  channel_.reset();
}

void HostLink::watch(std::vector<pollfd>& entries) const {
  if (usable()) {
    channel_->watch(entries);
  } else {
    entries.insert(entries.end(), 2, pollfd{-1, 0, 0});
  }
  entries.push_back({errors_ && !error_.full() ? errors_.fd() : -1, POLLIN, 0});
}

void HostLink::serve() {
  if (usable()) {
    channel_->flush();
    if (!channel_->receive() && closed_ == never) closed_ = Clock::now();
  }
  read_error();
}

void HostLink::read_error() {
  char block[16384];
  while (errors_ && !error_.full()) {
    const ssize_t n = read(errors_.fd(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return errors_.reset();
    const std::string_view text(block, static_cast<std::size_t>(n));
    if (ready_)
      error_.put(text);
    else if (said_.size() < most_said)
      said_ += text;
  }
}

void HostLink::keep_alive(double silence) {
  if (!usable() || Clock::now() < next_alive_) return;
  next_alive_ = deadline_in(Seconds(silence / 4));
  channel_->say({Say::alive, 0, 0, {}});
}

std::string HostLink::lost(double silence, double start_patience) const {
  if (over_ || !channel_) return {};
  if (closed_ != never) return status_ || Clock::now() >= closed_ + until_reaped ? how_it_went() : std::string();
  if (const auto& speaks = channel_->greeted(); speaks && *speaks != version())
    return fmt::format("its tutti is version '{}' and this is {}; install one version everywhere", *speaks, version());
  const Deadline now = Clock::now();
  if (!ready_ && now - started_ >= Seconds(start_patience))
    return fmt::format("'{}' has started no agent in {} s{}", shown_, start_patience,
                       said_.empty() ? "" : " (" + last_line(said_) + ")");
  if (ready_ && now - channel_->heard() >= Seconds(silence))
    return fmt::format("nothing was heard of it for {} s", silence);
  return {};
}

std::string HostLink::how_it_went() const {
  std::string text = shown_.empty() ? "its agent" : "'" + shown_ + "'";
  if (!status_)
    text += " has closed its output";
  else if (WIFSIGNALED(*status_))
    text += fmt::format(" was killed by signal {}", WTERMSIG(*status_));
  else
    text += fmt::format(" exited with code {}", WEXITSTATUS(*status_));
  const std::string line = last_line(said_);
  if (!line.empty()) text += " (" + line + ")";
  const bool no_program = status_ && WIFEXITED(*status_) && (WEXITSTATUS(*status_) | 1) == 127;
  if (channel_->greeted()) return text;
  return text + (no_program ? "; is tutti installed there at this place? Name another by --remote-tutti"
                            : "; check the host's name, and --remote-start");
}

Deadline HostLink::next_look(double silence, double start_patience) const {
  if (!usable()) return never;
  const auto after = [](Deadline from, Seconds time) { return from + std::chrono::ceil<Clock::duration>(time); };
  if (closed_ != never) return after(closed_, until_reaped);
  const Deadline first = ready_ ? after(channel_->heard(), Seconds(silence)) : after(started_, Seconds(start_patience));
  return std::min(first, next_alive_);
}

}  // namespace tutti::tools
