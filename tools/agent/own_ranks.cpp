#include "tools/agent/own_ranks.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/run/environment.hpp"
#include "tools/run/program.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {

std::optional<Trouble> OwnRanks::start(const Job& job) {
  if (const std::string why = too_few_descriptors(2 * job.here.size()); !why.empty())
    return Trouble{why, exit_not_executable};
  if (job.bind) processes_.bind();
  processes_.record(static_cast<int>(job.here.size()), job.variable("TUTTI_RECORDER", "on"), job.variable("TUTTI_JOB"));
  const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Inherited first;
  int ends[2];
  if (job.here.front() == 0 && pipe2(ends, O_CLOEXEC) == 0) {
    first = Inherited(ends[0]);
    input_ = Descriptor(ends[1]);
    fcntl(input_.fd(), F_SETFL, fcntl(input_.fd(), F_GETFL) | O_NONBLOCK);
  }
  for (const int rank : job.here)
    if (const std::string why = start_rank(job, rank, rank == 0 ? first.fd() : nothing.fd()); !why.empty())
      return Trouble{why, errno == ENOENT ? exit_not_found : exit_not_executable};
  return std::nullopt;
}

/// Starts one rank. Returns an empty string, or why the rank cannot be started; errno is then set.
std::string OwnRanks::start_rank(const Job& job, int rank, int input) {
  ranks_.push_back(rank);
  for (const int i : {0, 1}) streams_.push_back({2 * rank + i, {}});
  return start_process(job, rank, 0, input);
}

void OwnRanks::restart(const Job& job, int rank, int number) {
  if (!std::ranges::binary_search(ranks_, rank) || finished_) return;
  if (rank == 0 && input_) {  // the launcher's stdin was the first process's
    input_.reset();
    input_text_.clear();
    channel_.queue({Say::consumed, 0, -1, {}});
  }
  const Inherited nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string why = start_process(job, rank, number, nothing.fd());
  const int code = errno == ENOENT ? exit_not_found : exit_not_executable;
  for (const int i : {0, 1}) {
    Stream& stream = *stream_of(2 * rank + i);
    if (!why.empty()) stream.source.reset();  // its end may have been sent already, with the process before
    forward(stream);
  }
  if (!why.empty()) channel_.queue({Say::unstarted, rank, code, why});
}

/// Starts a process with new pipes in a rank's place; `join` is the number of a replacement, and otherwise 0. Returns
/// an empty string, or why it cannot be started; errno is then set.
std::string OwnRanks::start_process(const Job& job, int rank, int join, int input) {
  Inherited writing[2];
  for (int i = 0; i < 2; ++i) {
    int pipe[2];
    if (pipe2(pipe, O_CLOEXEC) != 0)
      return fmt::format("cannot make a pipe for rank {}: {}", rank, std::strerror(errno));
    writing[i] = Inherited(pipe[1]);
    fcntl(pipe[0], F_SETFL, fcntl(pipe[0], F_GETFL) | O_NONBLOCK);
    replace_source(*stream_of(2 * rank + i), Descriptor(pipe[0]));
  }
  RankProcess process{job.file, job.words, rank_environment(job, rank, join), input, writing[0].fd(), writing[1].fd()};
  const pid_t pid =
      join > 0 ? processes_.restart(rank, std::move(process)) : processes_.start(rank, std::move(process));
  if (pid < 0) {
    const std::string why =
        fmt::format("cannot start rank {} ({}): {}", rank, job.file, why_not_executed(job.file, -pid));
    errno = -pid;
    return why;
  }
  channel_.queue({Say::started, rank, pid, {}});
  return {};
}

void OwnRanks::input(const std::string& text) {
  input_ends_ |= text.empty();
  input_text_.append(text);
  forward_input();
}

OwnRanks::Stream* OwnRanks::stream_of(std::int32_t subject) {
  const auto rank = std::lower_bound(ranks_.begin(), ranks_.end(), subject / 2);
  if (subject < 0 || rank == ranks_.end() || *rank != subject / 2) return nullptr;
  const auto index = static_cast<std::size_t>(2 * (rank - ranks_.begin()) + subject % 2);
  return index < streams_.size() ? &streams_[index] : nullptr;
}

void OwnRanks::taken(std::int32_t stream, std::int64_t bytes) {
  Stream* const found = stream_of(stream);
  if (found == nullptr) return;
  if (bytes < 0) {  // the rank gets SIGPIPE, as it would without the agent
    found->reader_gone = true;
    found->kept.clear();
    return found->source.reset();
  }
  found->credit += static_cast<std::size_t>(bytes);
  if (finished_ || !found->kept.empty()) forward(*found);
}

void OwnRanks::watch(std::vector<pollfd>& entries) const {
  entries.push_back({input_text_.empty() ? -1 : input_.fd(), POLLOUT, 0});
  for (const Stream& stream : streams_) entries.push_back({stream.credit > 0 ? stream.source.fd() : -1, POLLIN, 0});
}

void OwnRanks::serve(std::span<const pollfd> entries) {
  if (entries[0].revents != 0) forward_input();
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].revents != 0) forward(streams_[i - 1]);
}

void OwnRanks::tell_stops() {
  for (const Stopped& one : processes_.take_stopped()) channel_.queue({Say::stopped, one.rank, one.signal, {}});
}

void OwnRanks::reaped(pid_t pid, int status) {
  const auto end = processes_.reaped(pid, status);
  if (!end) return;
  for (const int i : {0, 1}) forward(*stream_of(2 * end->rank + i));  // the rank's output must be sent before its end
  channel_.queue({Say::ended, end->rank, end->status, end->last});
}

void OwnRanks::finish(const std::vector<pid_t>& others) {
  processes_.finish(others);
  finished_ = true;
  for (Stream& stream : streams_) forward(stream);
}

bool OwnRanks::talking() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.source || !stream.kept.empty(); });
}

/// Reads a stream from the pipe of a new process from now on. What the pipe of the one before still has is kept.
void OwnRanks::replace_source(Stream& stream, Descriptor source) {
  constexpr std::size_t most_kept = 1 << 20;
  char block[32768];
  ssize_t n = 0;
  while (stream.source && stream.kept.size() < most_kept && (n = read(stream.source.fd(), block, sizeof block)) > 0)
    stream.kept.append({block, static_cast<std::size_t>(n)});
  stream.source = stream.reader_gone ? Descriptor() : std::move(source);
}

/// Sends a rank's output to the launcher, as far as the stream's credit allows. After finish() the stream has no writer
/// left, so a pipe that is empty stays empty.
void OwnRanks::forward(Stream& stream) {
  while (!stream.kept.empty() && stream.credit > 0) {
    const std::size_t part = std::min(stream.kept.size(), stream.credit);
    stream.credit -= part;
    channel_.queue({Say::output, stream.subject, 0, std::string(stream.kept.view().substr(0, part))});
    stream.kept.drop(part);
  }
  while (stream.source && stream.credit > 0) {
    char block[32768];
    const std::size_t room = std::min(sizeof block, stream.credit);
    const ssize_t n = read(stream.source.fd(), block, room);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !finished_) return;
    if (n <= 0) {
      stream.source.reset();
      return channel_.queue({Say::output, stream.subject, 0, {}});
    }
    stream.credit -= static_cast<std::size_t>(n);
    channel_.queue({Say::output, stream.subject, 0, std::string(block, static_cast<std::size_t>(n))});
    if (static_cast<std::size_t>(n) < room && !finished_) return;  // the pipe is empty
  }
}

void OwnRanks::forward_input() {
  while (input_ && !input_text_.empty()) {
    const ssize_t n = write(input_.fd(), input_text_.view().data(), input_text_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      input_.reset();
      channel_.queue({Say::consumed, 0, -1, {}});
      break;
    }
    input_text_.drop(static_cast<std::size_t>(n));
    channel_.queue({Say::consumed, 0, n, {}});
  }
  if (!input_) input_text_.clear();
  if (input_ends_ && input_text_.empty()) input_.reset();
}

}  // namespace tutti::tools
