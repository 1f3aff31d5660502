// Starts an agent, and reports how it ended.
#include "tools/run/host_link.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tools/command.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/program.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds until_reaped(2);  // a remote start command may close its pipes shortly before it ends
constexpr std::size_t most_said = 64 << 10;

std::string no_more(const char* what) {
  const int why = errno;
  return fmt::format(
      "cannot make a {}: {}{}", what, std::strerror(why),
      why == EMFILE ? "; raise the limit (ulimit -n), or start fewer agents from here by --fan-out" : "");
}

std::vector<std::string> own_environment() {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry; ++entry) lines.emplace_back(*entry);
  return lines;
}

/// Returns the last line that is not blank, because login banners come first.
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

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

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

std::string HostLink::start(const Job& job, const Host& host, bool remote) {
  RankProcess process;
  if (remote) process.words = remote_words(job.remote_start, host.name);
  shown_ = fmt::format("{}", fmt::join(process.words, " "));
  process.words.push_back(remote && !job.remote_tutti.empty() ? job.remote_tutti : own_program());
  process.words.push_back("agent");
  process.file = find_executable(process.words.front());
  if (process.file.empty())
    return fmt::format(
        "cannot run '{}', which is to start the ranks on other hosts: {}; name another command by "
        "--remote-start",
        process.words.front(), errno == ENOENT ? "no such program here or on PATH" : std::strerror(errno));
  process.environment = own_environment();
  int ends[2], pipe[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return no_more("socket");
  channel_ = std::make_unique<Channel>(Descriptor(ends[0]), Descriptor(), std::string(agent_greeting));
  const Inherited talk(ends[1]);
  if (pipe2(pipe, O_CLOEXEC) != 0) return no_more("pipe");
  errors_ = Descriptor(pipe[0]);
  const Inherited error(pipe[1]);
  fcntl(errors_.fd(), F_SETFL, fcntl(errors_.fd(), F_GETFL) | O_NONBLOCK);
  process.input = process.output = talk.fd();
  process.error = error.fd();
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
  watch();
  channel_.reset();
}

void HostLink::watch() {
  const bool talks = usable() && closed_ == never;
  std::uint32_t talk = talks ? EPOLLIN : 0u;
  if (talks && channel_->pending()) talk |= EPOLLOUT;
  const std::uint32_t error = errors_ && !errors_ended_ && !error_.full() ? EPOLLIN : 0u;
  if (channel_) waits_.watch(channel_->fd(), std::exchange(channel_events_, talk), talk, tag_);
  if (errors_) waits_.watch(errors_.fd(), std::exchange(error_events_, error), error, tag_ + 1);
  if (errors_ended_) errors_.reset();  // closed only now, because waits_.watch() must remove it before
}

void HostLink::serve(std::uint32_t events) {
  if (!usable() || closed_ != never) return;
  if ((events & EPOLLOUT) != 0) channel_->flush();
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && !channel_->receive()) closed_ = Clock::now();
}

void HostLink::read_error() {
  char block[16384];
  while (errors_ && !errors_ended_ && !error_.full()) {
    const ssize_t n = read(errors_.fd(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      errors_ended_ = true;
      return;
    }
    const std::string_view text(block, static_cast<std::size_t>(n));
    if (ready_)
      error_.put(text);
    else if (said_.size() < most_said)
      said_ += text;
    if (static_cast<std::size_t>(n) < sizeof block) return;
  }
}

void HostLink::keep_alive(double silence) {
  if (!usable() || !is_there() || Clock::now() < next_alive_) return;
  next_alive_ = deadline_in(Seconds(silence / 4));
  channel_->say({Say::alive, 0, 0, {}});
}

/// Returns the time in which the branch has to become ready: more if it has several levels, which start in turn.
Seconds HostLink::until_ready(double start_patience) const noexcept {
  return Seconds(start_patience * (levels_ == 1 ? 1 : levels_ + 1));
}

std::string HostLink::lost(double silence, double start_patience) const {
  if (over_ || !channel_) return {};
  if (closed_ != never) return status_ || Clock::now() >= closed_ + until_reaped ? how_it_went() : std::string();
  if (const auto& speaks = channel_->greeted(); speaks && *speaks != version())
    return fmt::format("its tutti is version '{}' and this is {}; install one version everywhere", *speaks, version());
  const Deadline now = Clock::now();
  if (!is_there() && now - started_ >= Seconds(start_patience))
    return fmt::format(
        "{} has started no agent in {} s{}; check the host's name, or give it longer (--connect-timeout)",
        remote_start_text(), start_patience, said_.empty() ? "" : " (" + last_line(said_) + ")");
  if (is_there() && now - channel_->heard() >= Seconds(silence))
    return fmt::format("nothing was heard of it for {} s (--silence)", silence);
  if (!ready_ && now - started_ >= until_ready(start_patience))
    return fmt::format("its agent is there, but has not become ready in {} s", until_ready(start_patience).count());
  return {};
}

std::string HostLink::remote_start_text() const { return shown_.empty() ? "its agent" : "'" + shown_ + "'"; }

std::string HostLink::how_it_went() const {
  std::string text = remote_start_text();
  if (!status_)
    text += " has closed its output";
  else if (WIFSIGNALED(*status_))
    text += fmt::format(" was killed by signal {}", WTERMSIG(*status_));
  else
    text += fmt::format(" exited with code {}", WEXITSTATUS(*status_));
  const std::string line = last_line(said_);
  if (!line.empty()) text += " (" + line + ")";
  const bool no_program = status_ && WIFEXITED(*status_) && (WEXITSTATUS(*status_) | 1) == 127;
  if (is_there()) return text;
  return text + (no_program ? "; is tutti installed there at this place? Name another by --remote-tutti"
                            : "; check the host's name, and --remote-start");
}

Deadline HostLink::next_look(double silence, double start_patience) const {
  if (!usable()) return never;
  const auto after = [](Deadline from, Seconds time) { return from + std::chrono::ceil<Clock::duration>(time); };
  if (closed_ != never) return after(closed_, until_reaped);
  if (!is_there()) return after(started_, Seconds(start_patience));
  const Deadline first = std::min(after(channel_->heard(), Seconds(silence)), next_alive_);
  return ready_ ? first : std::min(first, after(started_, until_ready(start_patience)));
}

}  // namespace tutti::tools
