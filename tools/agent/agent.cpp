// The agent: starts the ranks of its host and the agents below it, and passes messages between them and the launcher.
#include "tools/agent/agent.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "collectives/doctor/opinion.hpp"
#include "tools/agent/examination.hpp"
#include "tools/agent/own_ranks.hpp"
#include "tools/agent/preparation.hpp"
#include "tools/command.hpp"
#include "tools/run/branches.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/job_text.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {
namespace {

/// Duplicates stdin or stdout for the channel. Redirects stdout itself to stderr, for text that is printed by mistake.
Descriptor take_over(int fd) {
  Descriptor own(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (fd == STDOUT_FILENO) dup2(STDERR_FILENO, fd);
  return own;
}

class Agent {
 public:
  Agent() : above_(take_over(STDIN_FILENO), take_over(STDOUT_FILENO), "") {
    above_.greet(fmt::format("{}{}\n", agent_greeting, version()));
  }

  int run();

 private:
  bool serve(const std::vector<pollfd>& entries);
  std::vector<pollfd> wait();
  void take(const Frame& frame);
  void begin(const std::string& text);
  void end_preparation();
  void refuse(const Trouble& trouble);
  void tell_ready();
  void go(const Frame& frame);
  void end(const Frame& frame);
  void tell_time(const Frame& frame);
  void examine(const Frame& frame);
  void take_signals();
  void reap();
  bool silent() const;
  void leave();

  Signals signals_;
  Channel above_;              ///< the channel to the process that has started this agent
  Sink error_{STDERR_FILENO};  ///< takes what the agents below write to stderr
  Job job_;
  std::optional<OwnRanks> own_;
  std::optional<Branches> below_;
  std::optional<Preparation> preparation_;
  Examination examination_;
  bool prepared_ = false, told_ready_ = false;
  bool stopped_ = false;  ///< the launcher is stopped, so no heartbeats may arrive from above
  bool ending_ = false, over_ = false;
  Deadline next_alive_ = never;
};

int Agent::run() {
  while (!over_) {
    if (!serve(wait())) break;
    if (silent()) {
      fmt::print(stderr, "tutti agent: the launcher has been silent for {} s; ending the ranks here\n", job_.silence);
      break;
    }
    if (Clock::now() >= next_alive_) {
      above_.queue({Say::alive, 0, 0, {}});
      next_alive_ = deadline_in(Seconds(job_.silence / 4));
    }
    tell_ready();
    if (ending_ && !own_->talking() && below_->over()) leave();
    above_.flush();
  }
  if (own_ && !over_) {
    below_->kill();
    own_->signal(SIGKILL);
    own_->finish(below_->pids());
  }
  return over_ ? 0 : 1;
}

/// Handles the entries of wait(). Returns false once the other side has closed the channel.
bool Agent::serve(const std::vector<pollfd>& entries) {
  if (entries[1].revents != 0) {
    if (!above_.receive()) return false;
    while (const auto frame = above_.next()) take(*frame);
  }
  if (entries[3].revents != 0) error_.flush();
  if (entries[4].revents != 0) end_preparation();
  if (entries[0].revents != 0) take_signals();
  if (!own_) return true;
  if (entries.size() > 5) {
    examination_.serve(above_);
    own_->serve(std::span(entries).subspan(7));
  }
  own_->tell_stops();
  if (!below_->empty()) below_->serve([this](Frame&& frame) { above_.queue(frame); });
  return true;
}

std::vector<pollfd> Agent::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  above_.watch(entries);
  entries.push_back({error_.pending() ? error_.fd() : -1, POLLOUT, 0});
  entries.push_back({preparation_ ? preparation_->fd() : -1, POLLIN, 0});
  Deadline until = next_alive_;
  if (own_) {
    entries.push_back({below_->fd(), POLLIN, 0});
    examination_.watch(entries);
    own_->watch(entries);
    until = std::min({until, own_->next_look(), below_->next_look()});
    if (!stopped_) until = std::min(until, above_.heard() + std::chrono::ceil<Clock::duration>(Seconds(job_.silence)));
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ++reads().wakes;
  poll(entries.data(), entries.size(),
       until == never ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
  return entries;
}

bool Agent::silent() const { return own_ && !stopped_ && Clock::now() - above_.heard() >= Seconds(job_.silence); }

void Agent::take(const Frame& frame) {
  if (frame.say == Say::job) return begin(frame.text);
  if (!own_) return;
  switch (frame.say) {
    case Say::go: return go(frame);
    case Say::signal:
      if (frame.number == SIGTSTP) stopped_ = true;
      if (frame.number == SIGCONT) stopped_ = false;
      below_->say(frame);
      return own_->signal(static_cast<int>(frame.number));
    case Say::input:
      if (!below_->say_to(0, frame)) own_->input(frame.text);
      return;
    case Say::taken:
      if (!below_->say_to(frame.subject / 2, frame)) own_->taken(frame.subject, frame.number);
      return;
    case Say::restart:
      if (!below_->say_to(frame.subject, frame)) own_->restart(job_, frame.subject, static_cast<int>(frame.number));
      return;
    case Say::end: return end(frame);
    case Say::clock: return tell_time(frame);
    case Say::ask: return examine(frame);
    default: return;
  }
}

/// Starts the agents below, and meanwhile prepares this host.
void Agent::begin(const std::string& text) {
  if (own_) return;
  std::string folder;
  job_ = parse_job(text, folder);
  if (const auto asked = job_.variables.find("TUTTI_LOG"); asked != job_.variables.end())
    if (const auto level = parse_log_level(asked->second)) set_log_level(*level);
  raise_descriptor_limit(job_.ranks);
  own_.emplace(fmt::format("{}-{}", job_.mark, job_.place + 1), above_);
  below_.emplace(own_->guard(), error_);
  above_.hear_anew();
  next_alive_ = Clock::now();
  const auto most = static_cast<std::size_t>(job_.fan_out);
  Job others = job_;
  others.hosts.erase(others.hosts.begin());
  others.place = job_.place + 1;
  if (const auto trouble =
          below_->start(others, {others.place, split(others.place, others.hosts.size(), most)}, folder))
    refuse(*trouble);
  job_.mark = fmt::format("{}-{}", job_.mark, job_.place + 1);
  preparation_.emplace(job_, folder);
}

void Agent::refuse(const Trouble& trouble) {
  above_.queue({Say::refused, static_cast<std::int32_t>(job_.place), trouble.exit_code, trouble.line});
}

void Agent::end_preparation() {
  if (const auto trouble = preparation_->wait(job_))
    refuse(*trouble);
  else
    prepared_ = true;
  preparation_.reset();
}

void Agent::tell_ready() {
  if (!prepared_ || told_ready_ || !below_->ready()) return;
  told_ready_ = true;
  above_.queue({Say::ready, 0, 0, {}});
}

void Agent::go(const Frame& frame) {
  below_->say(frame);
  if (const auto trouble = own_->start(job_)) refuse(*trouble);
}

void Agent::end(const Frame& frame) {
  below_->say(frame);
  reap();
  ending_ = true;
  own_->finish(below_->pids());
}

void Agent::tell_time(const Frame& frame) {
  above_.queue({Say::clock, static_cast<std::int32_t>(job_.place), frame.number, std::to_string(doctor::real_now())});
  below_->say(frame);
}

void Agent::examine(const Frame& frame) {
  below_->say(frame);
  // While the preparation's thread runs there are no ranks, and this process must not fork.
  if (preparation_) return above_.queue({Say::examined, static_cast<std::int32_t>(job_.place), frame.number, {}});
  examination_.begin(frame,
                     {job_.variable("TUTTI_JOB"), job_.here, own_->recorder(), static_cast<std::int32_t>(job_.place)});
}

void Agent::take_signals() {
  bool children = false;
  while (const auto signal = signals_.next()) {
    children |= *signal == SIGCHLD;
    // These signals are meant for the ranks, which get them here; signals from a terminal are handled by the launcher.
    if ((*signal == SIGTERM || *signal == SIGHUP || *signal == SIGQUIT) && own_) own_->signal(*signal);
  }
  if (children && own_) reap();
}

void Agent::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;)
    if (!examination_.reaped(pid) && !below_->reaped(pid, status)) own_->reaped(pid, status);
}

/// Sends goodbye after all output. From here on the agent leaves nothing behind, so it dismisses the guard.
void Agent::leave() {
  log(LogLevel::debug,
      fmt::format("agent of host '{}': {} hosts below it; {} wakes, {} reads of channels, {} in vain",
                  job_.hosts.front().name, job_.hosts.size() - 1, reads().wakes, reads().all, reads().in_vain));
  own_->guard().dismiss();
  above_.say({Say::goodbye, 0, 0, {}});
  const Deadline until = deadline_in(Seconds(job_.silence));
  while (above_.pending() || (error_.pending() && Clock::now() < until)) {
    std::vector<pollfd> entries;
    above_.watch(entries);
    entries.push_back({error_.pending() ? error_.fd() : -1, POLLOUT, 0});
    poll(entries.data(), entries.size(), static_cast<int>(job_.silence * 1000));
    above_.flush();
    error_.flush();
    if (entries[0].revents != 0 && !above_.receive()) break;
  }
  over_ = true;
}

}  // namespace

int run_agent() { return Agent().run(); }

}  // namespace tutti::tools
