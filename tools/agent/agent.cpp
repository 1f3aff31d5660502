// The agent: starts the ranks of one host, and forwards their output, input, signals and exit status.
#include "tools/agent/agent.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "tools/agent/preparation.hpp"
#include "tools/command.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/job_text.hpp"
#include "tools/run/processes.hpp"
#include "tools/run/program.hpp"
#include "transports/core/byte_queue.hpp"

namespace tutti::tools {
namespace {

/// A rank's stdout or stderr, on its way to the launcher.
struct Stream {
  std::int32_t subject = 0;
  Descriptor source;
  std::size_t credit = stream_window;
};

/// Duplicates stdin or stdout for the channel. Stdout itself then goes to stderr, for anything printed by mistake.
Descriptor take_over(int fd) {
  Descriptor own(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (fd == STDOUT_FILENO) dup2(STDERR_FILENO, fd);
  return own;
}

class Agent {
 public:
  Agent() : channel_(take_over(STDIN_FILENO), take_over(STDOUT_FILENO), "") {
    channel_.greet(fmt::format("{}{}\n", agent_greeting, version()));
  }

  int run();

 private:
  void wait();
  void take_frames();
  void take(Frame& frame);
  void prepare(const std::string& text);
  void start();
  std::string start_rank(int rank, int input);
  void take_signals();
  void forward(Stream& stream);
  void forward_input();
  bool silent() const;
  void leave();

  Signals signals_;
  Channel channel_;
  Job job_;
  std::optional<Processes> processes_;
  std::deque<Stream> streams_;
  Descriptor input_;  ///< pipe to rank 0
  ByteQueue input_text_;
  bool input_ends_ = false;
  bool ready_ = false;    ///< from then on both sides send heartbeats
  bool stopped_ = false;  ///< the launcher is stopped, so it sends no heartbeats
  bool ending_ = false, over_ = false;
  Deadline next_alive_ = never;
};

int Agent::run() {
  while (!over_) {
    wait();
    if (!channel_.receive()) break;
    take_frames();
    take_signals();
    forward_input();
    for (Stream& stream : streams_) forward(stream);
    if (silent()) {
      fmt::print(stderr, "tutti agent: the launcher has been silent for {} s; ending the ranks here\n", job_.silence);
      break;
    }
    if (Clock::now() >= next_alive_) {
      channel_.say({Say::alive, 0, 0, {}});
      next_alive_ = deadline_in(Seconds(job_.silence / 4));
    }
    if (ending_ && std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return bool(s.source); }))
      leave();
  }
  if (processes_ && !over_) {
    processes_->signal(SIGKILL);
    processes_->finish();
  }
  return over_ ? 0 : 1;
}

void Agent::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  channel_.watch(entries);
  if (!input_text_.empty()) entries.push_back({input_.fd(), POLLOUT, 0});
  for (const Stream& stream : streams_) entries.push_back({stream.credit > 0 ? stream.source.fd() : -1, POLLIN, 0});
  Deadline until = processes_ ? std::min(next_alive_, processes_->next_look()) : next_alive_;
  if (ready_ && !stopped_)
    until = std::min(until, channel_.heard() + std::chrono::ceil<Clock::duration>(Seconds(job_.silence)));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  poll(entries.data(), entries.size(),
       until == never ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
  channel_.flush();
}

bool Agent::silent() const { return ready_ && !stopped_ && Clock::now() - channel_.heard() >= Seconds(job_.silence); }

void Agent::take_frames() {
  while (auto frame = channel_.next()) take(*frame);
}

void Agent::take(Frame& frame) {
  switch (frame.say) {
    case Say::job: return prepare(frame.text);
    case Say::go: return start();
    case Say::signal:
      if (frame.number == SIGTSTP) stopped_ = true;
      if (frame.number == SIGCONT) stopped_ = false;
      if (processes_) processes_->signal(static_cast<int>(frame.number));
      return;
    case Say::input:
      input_ends_ |= frame.text.empty();
      input_text_.append(frame.text);
      return;
    case Say::taken:
      for (Stream& stream : streams_)
        if (stream.subject == frame.subject) {
          if (frame.number < 0)
            stream.source.reset();  // the rank gets SIGPIPE, as it would without the agent
          else
            stream.credit += static_cast<std::size_t>(frame.number);
        }
      return;
    case Say::end:
      ending_ = true;
      if (processes_) processes_->finish();
      return;
    default: return;
  }
}

void Agent::prepare(const std::string& text) {
  std::string folder;
  job_ = parse_job(text, folder);
  const auto gone = [&] { return !channel_.receive(); };
  if (const auto trouble = prepare_job(job_, folder, gone))
    channel_.say({Say::refused, 0, trouble->exit_code, trouble->line});
  else
    channel_.say({Say::ready, 0, 0, {}});
  ready_ = true;
  channel_.hear_anew();
  next_alive_ = Clock::now();
}

void Agent::start() {
  raise_descriptor_limit(job_.ranks);
  processes_.emplace(job_.mark);
  if (job_.bind) processes_->bind();
  const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Inherited first;
  int ends[2];
  if (job_.here.front() == 0 && pipe2(ends, O_CLOEXEC) == 0) {
    first = Inherited(ends[0]);
    input_ = Descriptor(ends[1]);
    fcntl(input_.fd(), F_SETFL, fcntl(input_.fd(), F_GETFL) | O_NONBLOCK);
  }
  for (const int rank : job_.here) {
    const std::string why = start_rank(rank, rank == 0 ? first.fd() : nothing.fd());
    if (!why.empty())
      return channel_.say({Say::refused, 0, errno == ENOENT ? exit_not_found : exit_not_executable, why});
  }
}

/// Returns an empty string, or why the rank cannot be started, with errno set.
std::string Agent::start_rank(int rank, int input) {
  Inherited writing[2];
  for (int i = 0; i < 2; ++i) {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0)
      return fmt::format("cannot make a pipe for rank {}: {}", rank, std::strerror(errno));
    writing[i] = Inherited(pipe[1]);
    fcntl(pipe[0], F_SETFL, fcntl(pipe[0], F_GETFL) | O_NONBLOCK);
    streams_.push_back({2 * rank + i, Descriptor(pipe[0])});
  }
  const pid_t pid = processes_->start(
      rank, {job_.file, job_.words, rank_environment(job_, rank), input, writing[0].fd(), writing[1].fd()});
  if (pid < 0) {
    const std::string why =
        fmt::format("cannot start rank {} ({}): {}", rank, job_.file, why_not_executed(job_.file, -pid));
    errno = -pid;
    return why;
  }
  channel_.say({Say::started, rank, pid, {}});
  return {};
}

void Agent::take_signals() {
  while (const auto signal = signals_.next())
    // A signal to the agent is meant for the ranks; the launcher handles a terminal's signals.
    if (*signal == SIGTERM || *signal == SIGHUP || *signal == SIGQUIT)
      if (processes_) processes_->signal(*signal);
  if (!processes_) return;
  for (const Stopped& one : processes_->take_stopped()) channel_.say({Say::stopped, one.rank, one.signal, {}});
  for (const Ended& end : processes_->reap()) {
    for (Stream& stream : streams_)
      if (stream.subject / 2 == end.rank) forward(stream);  // what it has said comes before its end
    channel_.say({Say::ended, end.rank, end.status, {}});
  }
}

/// Sends a rank's output to the launcher, as far as the stream's credit allows. At the end of the job no writer is
/// left, so an empty pipe stays empty.
void Agent::forward(Stream& stream) {
  while (stream.source && stream.credit > 0) {
    char block[32768];
    const ssize_t n = read(stream.source.fd(), block, std::min(sizeof block, stream.credit));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !ending_) return;
    if (n <= 0) {
      stream.source.reset();
      return channel_.say({Say::output, stream.subject, 0, {}});
    }
    stream.credit -= static_cast<std::size_t>(n);
    channel_.say({Say::output, stream.subject, 0, std::string(block, static_cast<std::size_t>(n))});
  }
}

void Agent::forward_input() {
  while (input_ && !input_text_.empty()) {
    const ssize_t n = write(input_.fd(), input_text_.view().data(), input_text_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      input_.reset();
      channel_.say({Say::consumed, 0, -1, {}});
      break;
    }
    input_text_.drop(static_cast<std::size_t>(n));
    channel_.say({Say::consumed, 0, n, {}});
  }
  if (!input_) input_text_.clear();
  if (input_ends_ && input_text_.empty()) input_.reset();
}

/// Says goodbye once all output is sent.
void Agent::leave() {
  channel_.say({Say::goodbye, 0, 0, {}});
  while (channel_.pending()) {
    std::vector<pollfd> entries;
    channel_.watch(entries);
    poll(entries.data(), entries.size(), static_cast<int>(job_.silence * 1000));
    channel_.flush();
    if (!channel_.receive()) break;
  }
  over_ = true;
}

}  // namespace

int run_agent() { return Agent().run(); }

}  // namespace tutti::tools
