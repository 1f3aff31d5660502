// Ranks on several hosts, with one agent on each. No rank starts before every host is ready.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <deque>
#include <filesystem>

#include "tools/run/guard.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/job_text.hpp"
#include "tools/run/make_ranks.hpp"
#include "tools/run/rank_output.hpp"
#include "tools/run/stops.hpp"
#include "transports/core/printable.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds for_other_stops(1);  // of the same moment, which other agents tell of

/// Stdout or stderr of one rank, as it arrives from its agent.
struct Stream {
  RankLines lines;
  std::string backlog;  ///< at most a window: the agent waits for Say::taken before it sends more
  bool ended = false;   ///< no more will arrive
  bool given_up = false;
};

class RemoteRanks final : public Ranks {
 public:
  RemoteRanks(const Job& job, Sinks& sinks) : guard_(job.mark), sinks_(sinks) {}

  std::optional<Trouble> start(const Job& job) override;
  void signal(int signal) override;
  void watch(std::vector<pollfd>& entries) override;
  std::optional<Trouble> serve(std::span<const pollfd> entries) override;
  Deadline next_look() const override;
  std::vector<Ended> ended() override;
  std::string whereabouts(int rank) const override;
  void finish() override;
  bool talking() override;

 private:
  struct Rank {
    std::size_t link = 0;
    pid_t pid = -1;
    bool running = true;
    bool stopped = false;  ///< so its agent said, which does not tell when it runs again
  };

  void reap();
  std::optional<Trouble> take(HostLink& link);
  std::optional<Trouble> take(HostLink& link, const Frame& frame);
  Rank& rank_of(const HostLink& link, int rank);
  void say_stops();
  std::optional<Trouble> look_for_loss(HostLink& link);
  void let_go();
  void pump(std::size_t stream);
  bool may_read_input() const;
  void forward_input();
  HostLink& host_of(int rank) { return links_[ranks_[static_cast<std::size_t>(rank)].link]; }

  Guard guard_;
  Sinks& sinks_;
  Job job_;
  std::deque<HostLink> links_;
  std::vector<Rank> ranks_;
  std::deque<Stream> streams_;  ///< two for each rank
  std::vector<Ended> ended_;
  std::vector<Stopped> stopped_;  ///< not said yet
  Deadline say_stops_at_ = never;
  std::size_t input_credit_ = stream_window;  ///< bytes of stdin that may be sent to rank 0's host
  bool input_open_ = true;
  bool going_ = false, finishing_ = false;
};

std::optional<Trouble> RemoteRanks::start(const Job& job) {
  job_ = job;
  ranks_.resize(static_cast<std::size_t>(job.ranks));
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error);
  for (const Host& host : job.hosts) {
    HostLink& link = links_.emplace_back(host, sinks_.error());
    if (const std::string why = link.start(job); !why.empty()) return Trouble{why, exit_not_found};
    guard_.watch(link.pid());
    Job part = job;
    part.here = host.ranks;
    part.mark = fmt::format("{}-{}", job.mark, links_.size());
    link.channel().say({Say::job, 0, 0, job_text(part, folder)});
    for (const int rank : host.ranks) ranks_[static_cast<std::size_t>(rank)].link = links_.size() - 1;
  }
  for (int rank = 0; rank < job.ranks; ++rank)
    for (Sink* sink : {&sinks_.output, &sinks_.error()})
      streams_.push_back({RankLines(*sink, job.tag_output ? rank_tag(rank) : ""), {}});
  return std::nullopt;
}

void RemoteRanks::signal(int signal) {
  if (signal == SIGCONT || signal == SIGTERM)
    for (Rank& rank : ranks_) rank.stopped = false;
  for (HostLink& link : links_)
    if (going_ && link.usable()) link.channel().say({Say::signal, 0, signal, {}});
  // Before Say::go there are no processes: a signal that ends ranks ends them here.
  if (!going_ && (signal == SIGKILL || signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT))
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (std::exchange(ranks_[i].running, false)) ended_.push_back({static_cast<int>(i), signal, {}});
}

void RemoteRanks::watch(std::vector<pollfd>& entries) {
  entries.push_back({may_read_input() ? STDIN_FILENO : -1, POLLIN, 0});
  for (const HostLink& link : links_) link.watch(entries);
}

std::optional<Trouble> RemoteRanks::serve(std::span<const pollfd> entries) {
  reap();
  if (entries[0].revents != 0) forward_input();
  for (HostLink& link : links_) {
    link.serve();
    link.keep_alive(job_.silence);
    if (auto trouble = take(link)) return trouble;
    if (auto trouble = look_for_loss(link)) return trouble;
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) pump(i);
  const Deadline now = Clock::now();
  if (now >= say_stops_at_) say_stops();
  for (Stream& stream : streams_) stream.lines.flush_if_due(now);
  if (!going_ && std::all_of(links_.begin(), links_.end(), [](const HostLink& l) { return l.ready(); })) let_go();
  return std::nullopt;
}

void RemoteRanks::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    for (HostLink& link : links_)
      if (link.pid() == pid) {
        link.reaped(status);
        guard_.forget(pid);
      }
}

std::optional<Trouble> RemoteRanks::take(HostLink& link) {
  try {
    while (link.usable())
      if (const auto frame = link.channel().next()) {
        if (auto trouble = take(link, *frame)) return trouble;
      } else {
        break;
      }
  } catch (const Error& error) {
    link.kill();
    return Trouble{fmt::format("host '{}': its agent is not to be believed: {}", link.host().name, error.what()),
                   exit_host_lost};
  }
  return std::nullopt;
}

/// The rank that a frame is about. Throws if it is none of the agent's, which knows no other ones.
RemoteRanks::Rank& RemoteRanks::rank_of(const HostLink& link, int rank) {
  const bool known = rank >= 0 && rank < job_.ranks && &host_of(rank) == &link;
  if (!known || !going_) throw Error(Code::protocol, "it speaks of a rank that it has not been told to start");
  return ranks_[static_cast<std::size_t>(rank)];
}

/// Takes what an agent says, if it can be true; the other side may be no agent, or a broken one.
std::optional<Trouble> RemoteRanks::take(HostLink& link, const Frame& frame) {
  const auto expect = [](bool holds, const char* otherwise) {
    if (!holds) throw Error(Code::protocol, otherwise);
  };
  switch (frame.say) {
    case Say::ready: link.be_ready(); break;
    case Say::refused: {
      const int code = frame.number > 0 && frame.number < 256 ? static_cast<int>(frame.number) : exit_host_lost;
      return Trouble{fmt::format("host '{}': {}", link.host().name, printable(frame.text)), code};
    }
    case Say::started: {
      Rank& about = rank_of(link, frame.subject);
      expect(about.pid < 0 && frame.number > 0 && frame.number <= INT_MAX, "it starts a rank that runs already");
      about.pid = static_cast<pid_t>(frame.number);
      break;
    }
    case Say::ended: {
      Rank& about = rank_of(link, frame.subject);
      expect(about.pid > 0, "a rank has ended there that was not started");
      if (std::exchange(about.running, false)) ended_.push_back({frame.subject, static_cast<int>(frame.number), {}});
      break;
    }
    case Say::stopped: {
      Rank& about = rank_of(link, frame.subject);
      expect(about.pid > 0 && frame.number > 0 && frame.number < NSIG, "a rank is stopped there that was not started");
      about.stopped = true;
      stopped_.push_back({frame.subject, static_cast<int>(frame.number)});
      say_stops_at_ = std::min(say_stops_at_, deadline_in(for_other_stops));
      break;
    }
    case Say::output: {
      expect(frame.subject >= 0, "it speaks of a rank that does not exist");
      rank_of(link, frame.subject / 2);
      Stream& stream = streams_[static_cast<std::size_t>(frame.subject)];
      expect(stream.backlog.size() + frame.text.size() <= stream_window, "it sends more output than it may");
      expect(!stream.ended, "it sends output after its end");
      stream.backlog += frame.text;
      stream.ended = frame.text.empty();
      break;
    }
    case Say::consumed:
      expect(&host_of(0) == &link, "it speaks of input that it has not been given");
      if (frame.number < 0) {
        input_open_ = false;
      } else {
        expect(static_cast<std::uint64_t>(frame.number) <= stream_window - input_credit_,
               "it consumes more input than there was");
        input_credit_ += static_cast<std::size_t>(frame.number);
      }
      break;
    case Say::goodbye:
      expect(finishing_, "it leaves before the job has ended");
      link.finish();
      break;
    case Say::alive: break;
    default: throw Error(Code::protocol, "it says what only a launcher says");
  }
  return std::nullopt;
}

void RemoteRanks::say_stops() {
  const bool others_run =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.running && !r.stopped; });
  for (const Stopped& one : std::exchange(stopped_, {}))
    if (ranks_[static_cast<std::size_t>(one.rank)].running)
      say_stopped(sinks_.error(), one.rank, whereabouts(one.rank), one.signal, others_run);
  say_stops_at_ = never;
}

std::optional<Trouble> RemoteRanks::look_for_loss(HostLink& link) {
  const std::string why = link.lost(job_.silence, job_.start_patience);
  if (why.empty()) return std::nullopt;
  link.kill();
  if (!going_)
    return Trouble{fmt::format("no rank can be started on host '{}': {}", link.host().name, why), exit_host_lost};
  for (const int rank : link.host().ranks) {
    if (std::exchange(ranks_[static_cast<std::size_t>(rank)].running, false)) ended_.push_back({rank, 0, why});
    for (const int stream : {2 * rank, 2 * rank + 1}) streams_[static_cast<std::size_t>(stream)].ended = true;
  }
  return std::nullopt;
}

/// What a rank has said comes before what the launcher says of its end.
std::vector<Ended> RemoteRanks::ended() {
  for (const Ended& end : ended_)
    for (const int stream : {2 * end.rank, 2 * end.rank + 1})
      if (Stream& it = streams_[static_cast<std::size_t>(stream)]; it.backlog.empty()) it.lines.end();
  return std::exchange(ended_, {});
}

void RemoteRanks::let_go() {
  going_ = true;
  for (HostLink& link : links_) link.channel().say({Say::go, 0, 0, {}});
}

/// Moves the backlog to the sink, if that has room.
void RemoteRanks::pump(std::size_t index) {
  Stream& stream = streams_[index];
  Sink& sink = stream.lines.sink();
  HostLink& link = host_of(static_cast<int>(index / 2));
  const auto subject = static_cast<std::int32_t>(index);
  if (sink.reader_gone() && !std::exchange(stream.given_up, true) && link.usable())
    link.channel().say({Say::taken, subject, -1, {}});
  if (!stream.backlog.empty() && !sink.full()) {
    stream.lines.put(stream.backlog);
    if (link.usable()) link.channel().say({Say::taken, subject, static_cast<std::int64_t>(stream.backlog.size()), {}});
    stream.backlog.clear();
  }
  if (stream.ended && stream.backlog.empty()) stream.lines.end();
}

/// A terminal is read only while the launcher is in the foreground.
bool RemoteRanks::may_read_input() const {
  if (!going_ || finishing_ || !input_open_ || input_credit_ == 0) return false;
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void RemoteRanks::forward_input() {
  char block[PIPE_BUF];
  const ssize_t n = read(STDIN_FILENO, block, std::min(sizeof block, input_credit_));
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  std::string text(block, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  input_open_ = !text.empty();
  input_credit_ -= text.size();
  if (HostLink& link = host_of(0); link.usable()) link.channel().say({Say::input, 0, 0, std::move(text)});
}

Deadline RemoteRanks::next_look() const {
  Deadline first = say_stops_at_;
  for (const HostLink& link : links_) first = std::min(first, link.next_look(job_.silence, job_.start_patience));
  for (const Stream& stream : streams_) first = std::min(first, stream.lines.due());
  return first;
}

std::string RemoteRanks::whereabouts(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  const std::string& host = links_[about.link].host().name;
  return about.pid < 0 ? host : fmt::format("{}, pid {}", host, about.pid);
}

void RemoteRanks::finish() {
  finishing_ = true;
  for (HostLink& link : links_) {
    if (!link.usable()) continue;
    if (going_)
      link.channel().say({Say::end, 0, 0, {}});
    else
      link.kill();
  }
}

bool RemoteRanks::talking() {
  const auto talks = [](const Stream& s) { return !s.backlog.empty(); };
  return std::any_of(links_.begin(), links_.end(), [](const HostLink& l) { return l.usable(); }) ||
         std::any_of(streams_.begin(), streams_.end(), talks);
}

}  // namespace

std::unique_ptr<Ranks> make_remote_ranks(const Job& job, Sinks& sinks) {
  return std::make_unique<RemoteRanks>(job, sinks);
}

}  // namespace tutti::tools
