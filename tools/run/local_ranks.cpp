// Ranks on this host, started by the launcher, which copies their output. A single rank inherits stdout and stderr,
// unless its lines are tagged.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>

#include "tools/run/environment.hpp"
#include "tools/run/make_ranks.hpp"
#include "tools/run/processes.hpp"
#include "tools/run/program.hpp"
#include "tools/run/rank_output.hpp"
#include "tools/run/terminal.hpp"

namespace tutti::tools {
namespace {

class LocalRanks final : public Ranks {
 public:
  LocalRanks(const std::string& mark, Sinks& sinks) : processes_(mark), sinks_(sinks) {}

  std::optional<Trouble> start(const Job& job) override {
    job_ = job;
    if (job.bind) processes_.bind();
    processes_.record(static_cast<int>(job.here.size()), job.variable("TUTTI_RECORDER", "on"),
                      job.variable("TUTTI_JOB"));
    recorder_ = processes_.recorder();
    const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Inherited first = first_input();
    for (int rank = 0; rank < job.ranks; ++rank) {
      const pid_t pid = start_rank(rank, 0, rank == 0 && first.fd() >= 0 ? first.fd() : nothing.fd());
      if (pid >= 0) continue;
      return Trouble{fmt::format("cannot start rank {} ({}): {}", rank, job.file, why_not_executed(job.file, -pid)),
                     -pid == ENOENT ? exit_not_found : exit_not_executable};
    }
    return std::nullopt;
  }

  void restart(int rank, int number) override {
    if (rank == 0) input_.reset();  // the launcher's stdin was the first process's
    const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const pid_t pid = start_rank(rank, number, nothing.fd());
    if (pid >= 0) return;
    const int code = -pid == ENOENT ? exit_not_found : exit_not_executable;
    ended_.push_back({.rank = rank, .status = W_EXITCODE(code, 0), .unstarted = why_not_executed(job_.file, -pid)});
  }

  void signal(int signal) override {
    if (signal == SIGWINCH)
      for (RankOutput& output : outputs_) copy_size(output.lines().sink().fd(), output.fd());
    processes_.signal(signal);
  }

  void watch(std::vector<pollfd>& entries) override {
    entries.push_back(next_input());
    for (const RankOutput& output : outputs_)
      entries.push_back({output.may_read() ? output.fd() : -1, POLLIN, 0});  // poll() ignores -1
  }

  std::optional<Trouble> serve(std::span<const pollfd> entries) override {
    if (entries[0].revents != 0 && entries[0].fd == STDIN_FILENO) forward_input();
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (entries[i + 1].revents != 0 && outputs_[i].may_read()) outputs_[i].pump();
    const Deadline now = Clock::now();
    for (RankOutput& output : outputs_) output.lines().flush_if_due(now);
    for (const Stopped& one : processes_.take_stopped())
      say_stopped(sinks_.error(), one.rank, whereabouts(one.rank), one.signal, processes_.others_run());
    return std::nullopt;
  }

  Deadline next_look() const override {
    Deadline first = processes_.next_look();
    for (const RankOutput& output : outputs_) first = std::min(first, output.lines().due());
    return first;
  }

  void reap() override {
    for (const Ended& end : processes_.reap()) ended_.push_back(end);
  }

  /// Also passes on what the ended ranks have written, so that it precedes the launcher's message about their end.
  std::vector<Ended> ended() override {
    std::vector<Ended> ended = std::exchange(ended_, {});
    for (Ended& end : ended) {
      end.where = whereabouts(end.rank);
      for (RankOutput& output : outputs_)
        if (output.rank() == end.rank) output.pump_rest();
    }
    return ended;
  }

  void finish() override {
    processes_.finish();
    input_.reset();
  }

  /// Reads the remaining output. No stream has a writer left, so a pipe that is empty stays empty.
  bool talking() override {
    bool more = false;
    for (RankOutput& output : outputs_) {
      while (output.may_read())
        if (!output.pump()) output.close();
      more |= output.open();
    }
    return more;
  }

 private:
  std::string whereabouts(int rank) const { return fmt::format("pid {}", processes_.pid_of(rank)); }

  /// Starts the first process of a rank or, if `join` is not 0, a replacement. Returns its pid, or -errno.
  pid_t start_rank(int rank, int join, int input) {
    RankProcess process{job_.file, job_.words, rank_environment(job_, rank, join), input, -1, -1};
    Inherited ends[2];  // the write ends, closed here once the rank has inherited them
    if (job_.tag_output || job_.ranks > 1) {
      for (int i = 0; i < (sinks_.same ? 1 : 2); ++i) {
        ends[i] = attach(rank, i == 0 ? sinks_.output : sinks_.error(), join > 0);
        if (ends[i].fd() < 0) return -errno;
      }
      process.output = ends[0].fd();
      process.error = sinks_.same ? ends[0].fd() : ends[1].fd();  // one stream for both keeps their order
    }
    return join > 0 ? processes_.restart(rank, std::move(process)) : processes_.start(rank, std::move(process));
  }

  /// Returns the write end of a new stream to `sink`; if it has no descriptor, errno says why.
  Inherited attach(int rank, Sink& sink, bool again) {
    if (sink.is_terminal())
      if (auto terminal = make_terminal(sink.fd())) {
        read_from(std::move(terminal->reading), rank, sink, again);
        return std::move(terminal->writing);
      }
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0) return Inherited();
    read_from(Descriptor(pipe[0]), rank, sink, again);
    return Inherited(pipe[1]);
  }

  /// Reads a stream of a rank from `source`. `again`: of a replacement, which continues that of the process before it.
  void read_from(Descriptor source, int rank, Sink& sink, bool again) {
    if (again)
      for (RankOutput& output : outputs_)
        if (output.rank() == rank && &output.lines().sink() == &sink) return output.reopen(std::move(source));
    outputs_.emplace_back(std::move(source), sink, rank, job_.tag_output);
  }

  /// Returns rank 0's stdin. A terminal belongs to the launcher's process group, so its input is copied through a pipe.
  Inherited first_input() {
    if (isatty(0) == 0) return Inherited(fcntl(0, F_DUPFD_CLOEXEC, 3));
    int ends[2];
    if (tcgetpgrp(0) != getpgrp() || pipe2(ends, O_CLOEXEC) != 0) return Inherited();
    input_ = Descriptor(ends[1]);
    return Inherited(ends[0]);
  }

  /// Returns the entry to poll for: the terminal, or the pipe to rank 0 while the pipe is full.
  pollfd next_input() const {
    pollfd pipe = {input_.fd(), POLLOUT, 0};
    if (!input_ || poll(&pipe, 1, 0) == 0) return pipe;     // poll() ignores -1
    if (tcgetpgrp(0) != getpgrp()) return {-1, POLLIN, 0};  // a process in the background must not read the terminal
    return {STDIN_FILENO, POLLIN, 0};
  }

  /// Copies from the terminal to rank 0. The pipe has room for one block.
  void forward_input() {
    char block[PIPE_BUF];
    const ssize_t n = read(0, block, sizeof block);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0 || write(input_.fd(), block, static_cast<std::size_t>(n)) < 0) input_.reset();
  }

  Processes processes_;
  Sinks& sinks_;
  Job job_;
  Descriptor input_;  ///< pipe to rank 0, if the launcher copies from a terminal
  std::deque<RankOutput> outputs_;
  std::vector<Ended> ended_;  ///< not returned by ended() yet
};

}  // namespace

std::unique_ptr<Ranks> make_local_ranks(const Job& job, Sinks& sinks) {
  return std::make_unique<LocalRanks>(job.mark, sinks);
}

}  // namespace tutti::tools
