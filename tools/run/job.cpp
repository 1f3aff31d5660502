// The launcher's loop: signals, output, the ends of ranks, and the end of all.
#include "tools/run/job.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>

#include "collectives/bootstrap/stores.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/guard.hpp"
#include "tools/run/sink.hpp"
#include "tools/run/spawn.hpp"
#include "tools/run/tagged_output.hpp"
#include "transports/core/clock.hpp"
#include "transports/core/log.hpp"
#include "transports/core/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds from_term_to_kill(1);
constexpr Seconds patience(1);  // with a reader that takes nothing, once we were told to end
constexpr int exit_not_found = 127, exit_not_executable = 126, exit_time_limit = 124, exit_signal_base = 128;

int exit_code_of(int status) { return WIFSIGNALED(status) ? exit_signal_base + WTERMSIG(status) : WEXITSTATUS(status); }

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : "no name";
}

std::string how_it_ended(int status, const char* verb = "was") {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("{} killed by signal {} ({}){}", verb, signal, signal_name(signal),
                     WCOREDUMP(status) ? ", core dumped" : "");
}

struct Rank {
  pid_t pid = -1;
  bool running = false;
  bool ended_by_us = false;  ///< SIGTERM or SIGKILL was sent to it
  int status = 0;
  bool group_left = true;  ///< its process group may still have members; later its number may be another's
};

class Session {
 public:
  explicit Session(const Job& job) : job_(job), guard_(job.id) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t handled;
    sigemptyset(&handled);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD})
      sigaddset(&handled, signal);
    sigprocmask(SIG_BLOCK, &handled, &mask_);
    signals_ = Descriptor(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw Error(Code::resource, std::string("signalfd: ") + std::strerror(errno));
  }

  int run(std::map<std::string, std::string> variables);

 private:
  enum class Stage { running, grace, terminated, killed };

  int start_rank(int rank, const Job& job, int input);
  void loop();
  pollfd next_input() const;
  void forward_input();
  void take_signals();
  void reap();
  void fail_first(std::vector<int>& ended);
  void next_stage();
  void kill_all(int signal);
  void finish();
  void drain();
  void summarise();
  void say(std::string_view line) { error().put(fmt::format("tutti run: {}\n", line)); }
  Sink& error() { return same_ ? output_ : error_; }
  int running() const {
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.running; }));
  }

  const Job& job_;
  Guard guard_;
  sigset_t mask_ = {};
  Descriptor signals_;
  Descriptor input_;  ///< towards rank 0, where the launcher copies from a terminal
  std::vector<Rank> ranks_;
  Sink output_{STDOUT_FILENO};
  Sink error_{STDERR_FILENO};
  const bool same_ = same_file(STDOUT_FILENO, STDERR_FILENO);  ///< one sink then, or lines would get into lines
  std::deque<TaggedOutput> outputs_;
  Stage stage_ = Stage::running;
  Deadline next_stage_at_ = never;
  Deadline limit_ = never;
  std::optional<int> first_failure_;  ///< a rank
  bool limit_passed_ = false;
  bool told_to_end_ = false;  ///< by a signal
  int interrupts_ = 0;
};

/// What rank 0 reads. A terminal belongs to the launcher's process group, so that what is typed has to be copied.
Inherited first_input(Descriptor& copy_to) {
  if (isatty(0) == 0) return Inherited(fcntl(0, F_DUPFD_CLOEXEC, 3));
  int ends[2];
  if (tcgetpgrp(0) != getpgrp() || pipe2(ends, O_CLOEXEC) != 0) return Inherited();
  copy_to = Descriptor(ends[1]);
  return Inherited(ends[0]);
}

int Session::start_rank(int rank, const Job& job, int input) {
  RankProcess process{job.file, job.words, rank_environment(job, rank), input, -1, -1, mask_};
  Inherited ends[2];  // the writing ends, closed here once the rank has them
  if (job.tag_output)
    for (int i = 0; i < 2; ++i) {
      int pipe[2];
      if (pipe2(pipe, O_CLOEXEC) != 0) return -errno;
      ends[i] = Inherited(pipe[1]);
      outputs_.emplace_back(Descriptor(pipe[0]), i == 0 ? output_ : error(), rank);
    }
  process.output = ends[0].fd();
  process.error = ends[1].fd();
  return spawn(process);
}

int Session::run(std::map<std::string, std::string> variables) {
  Job job = job_;
  job.variables.merge(variables);
  const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Inherited first = first_input(input_);
  for (int rank = 0; rank < job.ranks; ++rank) {
    const pid_t pid = start_rank(rank, job, rank == 0 && first.fd() >= 0 ? first.fd() : nothing.fd());
    if (pid < 0) {
      say(fmt::format("cannot start rank {} ({}): {}", rank, job.file, std::strerror(-pid)));
      kill_all(SIGKILL);
      finish();
      return -pid == ENOENT ? exit_not_found : exit_not_executable;
    }
    ranks_.push_back({.pid = pid, .running = true});
    guard_.watch(pid);
  }
  first = Inherited();
  if (job.time_limit > 0) limit_ = deadline_in(Seconds(job.time_limit));
  loop();
  finish();
  summarise();
  drain();
  if (limit_passed_) return exit_time_limit;
  return first_failure_ ? exit_code_of(ranks_[static_cast<std::size_t>(*first_failure_)].status) : 0;
}

int poll_milliseconds(Deadline until) {
  if (until == never) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

void Session::loop() {
  while (running() > 0) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}, next_input()};
    for (const Sink* sink : {&output_, &error_}) entries.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
    for (const TaggedOutput& output : outputs_)
      entries.push_back({output.may_read() ? output.fd() : -1, POLLIN, 0});  // -1 is passed over
    if (poll(entries.data(), entries.size(), poll_milliseconds(std::min(next_stage_at_, limit_))) < 0 && errno != EINTR)
      throw Error(Code::resource, std::string("poll: ") + std::strerror(errno));
    if (entries[2].revents != 0) output_.flush();
    if (entries[3].revents != 0) error_.flush();
    for (std::size_t i = 4; i < entries.size(); ++i)
      if (entries[i].revents != 0 && outputs_[i - 4].may_read()) outputs_[i - 4].pump();
    if (entries[1].revents != 0 && entries[1].fd == STDIN_FILENO) forward_input();
    if (entries[0].revents != 0) take_signals();
    const Deadline now = Clock::now();
    if (now >= next_stage_at_) next_stage();
    if (now >= limit_) {
      say(fmt::format("the time limit of {} s has passed; ending all {} ranks", job_.time_limit, job_.ranks));
      limit_ = never;
      limit_passed_ = true;
      stage_ = Stage::grace;
      next_stage();
    }
  }
}

/// What to wait for: that somebody types, or where rank 0 has not read yet what was typed, that it does.
pollfd Session::next_input() const {
  pollfd pipe = {input_.fd(), POLLOUT, 0};
  if (!input_ || poll(&pipe, 1, 0) == 0) return pipe;     // poll() passes over -1
  if (tcgetpgrp(0) != getpgrp()) return {-1, POLLIN, 0};  // in the background: what is typed is not for us
  return {STDIN_FILENO, POLLIN, 0};
}

/// From the terminal to rank 0. The pipe has room for a block, or it would not have been called.
void Session::forward_input() {
  char block[PIPE_BUF];
  const ssize_t n = read(0, block, sizeof block);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0 || write(input_.fd(), block, static_cast<std::size_t>(n)) < 0) input_.reset();
}

void Session::take_signals() {
  signalfd_siginfo info = {};
  while (read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    told_to_end_ |= signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (signal == SIGINT && ++interrupts_ > 1) {
      kill_all(SIGKILL);
      continue;
    }
    for (const Rank& rank : ranks_)
      if (rank.running) kill(-rank.pid, signal);
    if (signal == SIGTSTP) raise(SIGSTOP);  // until SIGCONT, which is passed on like the others
  }
  reap();
}

void Session::reap() {
  std::vector<int> failed;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == pid; });
    if (found == ranks_.end()) continue;  // a grandchild whose parent has ended
    found->running = false;
    found->status = status;
    found->group_left = kill(-pid, 0) == 0;
    if (!found->group_left) guard_.forget(pid);
    if (exit_code_of(status) != 0) failed.push_back(static_cast<int>(found - ranks_.begin()));
  }
  if (!failed.empty() && !first_failure_) fail_first(failed);
}

void Session::fail_first(std::vector<int>& ended) {
  // Several may be seen at once; a rank that was killed is then the cause and not the consequence.
  const auto killed = [&](int rank) { return WIFSIGNALED(ranks_[static_cast<std::size_t>(rank)].status); };
  std::stable_partition(ended.begin(), ended.end(), killed);
  first_failure_ = ended.front();
  const Rank& rank = ranks_[static_cast<std::size_t>(*first_failure_)];
  if (!limit_passed_) say(fmt::format("rank {} (pid {}) {}", *first_failure_, rank.pid, how_it_ended(rank.status)));
  if (stage_ == Stage::running) {
    stage_ = Stage::grace;
    next_stage_at_ = deadline_in(Seconds(job_.grace));
  }
}

void Session::next_stage() {
  if (stage_ == Stage::grace) {
    stage_ = Stage::terminated;
    next_stage_at_ = deadline_in(from_term_to_kill);
    kill_all(SIGTERM);
  } else {
    stage_ = Stage::killed;
    next_stage_at_ = never;
    kill_all(SIGKILL);
  }
}

void Session::kill_all(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.running) continue;
    rank.ended_by_us = true;
    kill(-rank.pid, signal);
    if (signal == SIGTERM) kill(-rank.pid, SIGCONT);  // a stopped rank could not hear it
  }
}

/// Ends what ranks have left behind, and writes out what they had said.
void Session::finish() {
  for (const Rank& rank : ranks_)
    if (rank.group_left) kill(-rank.pid, SIGKILL);
  if (const int left = kill_job(job_.id); left > 0)
    log(LogLevel::info, fmt::format("ended {} processes that the ranks had left behind", left));
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  drain();
}

/// Nobody is left to write: all that was said goes out, as fast as it is read. Once we were told to end, a reader that
/// takes nothing is not waited for.
void Session::drain() {
  Deadline give_up = never;
  for (;;) {
    for (TaggedOutput& output : outputs_)
      while (output.may_read())
        if (!output.pump()) output.close();
    const bool moved = output_.flush() | error_.flush();
    const bool more = std::any_of(outputs_.begin(), outputs_.end(), [](const TaggedOutput& o) { return o.open(); });
    if (!more && !output_.pending() && !error_.pending()) return;
    const bool room = more && moved;  // the next look comes at once
    if ((told_to_end_ || limit_passed_) && (moved || give_up == never)) give_up = deadline_in(patience);
    pollfd entries[] = {{signals_.fd(), POLLIN, 0},
                        {output_.pending() ? output_.fd() : -1, POLLOUT, 0},
                        {error_.pending() ? error_.fd() : -1, POLLOUT, 0}};
    poll(entries, std::size(entries), room ? 0 : poll_milliseconds(std::min(give_up, limit_)));
    if (entries[0].revents != 0) take_signals();
    const Deadline now = Clock::now();
    if (now >= give_up) return;
    if (now < limit_) continue;
    limit_ = never;
    limit_passed_ = true;
  }
}

void Session::summarise() {
  if (!first_failure_) return;
  std::map<std::pair<bool, int>, std::vector<int>> ways;  // by whether we ended it, and its status
  for (int i = 0; i < static_cast<int>(ranks_.size()); ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    if ((i == *first_failure_ && !limit_passed_) || exit_code_of(rank.status) == 0) continue;
    ways[{rank.ended_by_us, rank.ended_by_us ? 0 : rank.status}].push_back(i);
  }
  for (const auto& [way, who] : ways) {
    const char* verb = who.size() == 1 ? "was" : "were";
    const std::string end =
        way.first ? fmt::format("did not end in time and {} ended", verb) : how_it_ended(way.second, verb);
    say(fmt::format("afterwards {} {} {}", who.size() == 1 ? "rank" : "ranks", fmt::join(who, ", "), end));
  }
}

}  // namespace

int run_job(const Job& job) {
  Session session(job);
  // The server comes after the guard's fork: a fork wants a process of one thread.
  std::optional<TcpStoreServer> server;
  std::map<std::string, std::string> variables;
  if (!job.variables.contains("TUTTI_STORE")) {
    server.emplace("127.0.0.1", 0, job.variables.at("TUTTI_SECRET"));
    variables["TUTTI_STORE"] = fmt::format("tcp://127.0.0.1:{}", server->port());
  }
  return session.run(std::move(variables));
}

}  // namespace tutti::tools
