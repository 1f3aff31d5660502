// Ranks on several hosts, started by a tree of agents (tree.hpp). No rank starts before every host is ready.
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <deque>
#include <filesystem>
#include <set>

#include "tools/run/branches.hpp"
#include "tools/run/consultations.hpp"
#include "tools/run/make_ranks.hpp"
#include "tools/run/rank_output.hpp"
#include "tools/run/stops.hpp"
#include "transports/core/printable.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds for_other_stops(1);  // how long to wait for other agents' reports of simultaneous stops

/// Stdout or stderr of one rank, as it arrives from its agent.
struct Stream {
  RankLines lines;
  std::string backlog;  ///< at most stream_window bytes: the agent waits for Say::taken before it sends more
  bool ended = false;   ///< no more output will arrive
};

class RemoteRanks final : public Ranks {
 public:
  RemoteRanks(const Job& job, Sinks& sinks) : guard_(job.mark), sinks_(sinks), below_(guard_, sinks.error()) {}

  std::optional<Trouble> start(const Job& job) override;
  void restart(int rank, int number) override;
  void signal(int signal) override;
  void watch(std::vector<pollfd>& entries) override;
  std::optional<Trouble> serve(std::span<const pollfd> entries) override;
  Deadline next_look() const override;
  void reap() override;
  std::vector<Ended> ended() override;
  void finish() override;
  bool talking() override;

 private:
  struct Rank {
    std::size_t host = 0;
    pid_t pid = -1;
    bool running = true;
    bool stopped = false;   ///< as its agent has reported; the agent does not report when the rank continues
    std::string lost = {};  ///< why its host is lost; empty: it is not
  };

  std::string whereabouts(int rank) const;
  void take(Frame&& frame);
  void take_start(const Frame& frame);
  void take_end(Ended end);
  void take_stop(const Frame& frame);
  void lose(const Frame& frame);
  std::string with_names(const std::string& why, std::size_t first, std::size_t count) const;
  std::string started_from(std::size_t host) const;
  void say_stops();
  void let_go();
  void pump_all();
  void pump(std::size_t stream);
  bool may_read_input() const;
  void forward_input();
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  Guard guard_;
  Sinks& sinks_;
  Branches below_;
  Consultations doctors_;
  const Consultations::Ways ways_ = {[this](const Frame& frame) { below_.say(frame); },
                                     [this](std::size_t host) { return below_.heard(host); }};
  std::vector<Branch> parts_;
  Job job_;  ///< its hosts are in the tree's order
  std::vector<Rank> ranks_;
  std::deque<Stream> streams_;        ///< two for each rank
  std::set<std::size_t> unfinished_;  ///< streams with a backlog, or with lines to write later
  std::set<const Sink*> given_up_;    ///< sinks whose readers have gone; the agents have been told
  std::vector<Ended> ended_;
  std::vector<Stopped> stopped_;  ///< not reported yet
  Deadline say_stops_at_ = never;
  std::size_t input_credit_ = stream_window;  ///< bytes of stdin that may be sent to rank 0's host
  bool input_open_ = true;
  bool going_ = false, finishing_ = false, told_ = false;
  std::optional<Trouble> trouble_;
};

std::optional<Trouble> RemoteRanks::start(const Job& job) {
  job_ = job;
  const std::size_t leaves = order_hosts(job_.hosts);
  if (job_.remote_tutti.empty()) job_.remote_tutti = own_program();
  parts_ = split(0, job_.hosts.size(), static_cast<std::size_t>(job.fan_out), leaves);
  ranks_.resize(static_cast<std::size_t>(job.ranks));
  for (std::size_t host = 0; host < job_.hosts.size(); ++host)
    for (const int rank : job_.hosts[host].ranks) rank_at(rank).host = host;
  for (int rank = 0; rank < job.ranks; ++rank)
    for (Sink* sink : {&sinks_.output, &sinks_.error()})
      streams_.push_back({RankLines(*sink, job.tag_output ? rank_tag(rank) : ""), {}});
  doctors_.open(job_, leaves);
  std::error_code error;
  return below_.start(job_, {0, parts_, leaves}, std::filesystem::current_path(error));
}

void RemoteRanks::restart(int rank, int number) {
  Rank& it = rank_at(rank);
  if (it.lost.empty() && !below_.say_to(rank, {Say::restart, rank, number, {}})) it.lost = "no message reaches it";
  if (!it.lost.empty()) return ended_.push_back({.rank = rank, .lost = it.lost});
  it.pid = -1;
  it.running = true;
  it.stopped = false;
  std::erase_if(stopped_, [rank](const Stopped& one) { return one.rank == rank; });
}

void RemoteRanks::signal(int signal) {
  if (signal == SIGCONT || signal == SIGTERM)
    for (Rank& rank : ranks_) rank.stopped = false;
  if (going_) below_.say({Say::signal, 0, signal, {}});
  // Before Say::go there are no processes, so a signal that would end ranks ends them here.
  if (!going_ && (signal == SIGKILL || signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT))
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (std::exchange(ranks_[i].running, false)) ended_.push_back({static_cast<int>(i), signal, {}});
}

void RemoteRanks::watch(std::vector<pollfd>& entries) {
  entries.push_back({may_read_input() ? STDIN_FILENO : -1, POLLIN, 0});
  entries.push_back({below_.fd(), POLLIN, 0});
  doctors_.watch(entries);
}

std::optional<Trouble> RemoteRanks::serve(std::span<const pollfd> entries) {
  if (entries[0].revents != 0) forward_input();
  below_.serve([this](Frame&& frame) { take(std::move(frame)); });
  doctors_.serve(entries.subspan(2), ways_);
  pump_all();
  if (Clock::now() >= say_stops_at_) say_stops();
  if (!going_ && !trouble_ && below_.ready()) let_go();
  return std::exchange(trouble_, std::nullopt);
}

void RemoteRanks::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) static_cast<void>(below_.reaped(pid, status));
}

/// Handles a frame from an agent. Claims has accepted the frame.
void RemoteRanks::take(Frame&& frame) {
  switch (frame.say) {
    case Say::refused: {
      const int code = frame.number > 0 && frame.number < 256 ? static_cast<int>(frame.number) : exit_host_lost;
      const std::string& host = job_.hosts[static_cast<std::size_t>(frame.subject)].name;
      if (!trouble_) trouble_ = Trouble{fmt::format("host '{}': {}", host, printable(frame.text)), code};
      break;
    }
    case Say::started: take_start(frame); break;
    case Say::ended: take_end({frame.subject, static_cast<int>(frame.number), {}, printable(frame.text)}); break;
    case Say::unstarted:
      take_end({.rank = frame.subject,
                .status = W_EXITCODE(static_cast<int>(frame.number), 0),
                .unstarted = printable(frame.text)});
      break;
    case Say::stopped: take_stop(frame); break;
    case Say::output: {
      const auto index = static_cast<std::size_t>(frame.subject);
      streams_[index].backlog += frame.text;
      streams_[index].ended = frame.text.empty();
      pump(index);
      break;
    }
    case Say::consumed:
      if (frame.number < 0)
        input_open_ = false;
      else
        input_credit_ += static_cast<std::size_t>(frame.number);
      break;
    case Say::lost: lose(frame); break;
    default: doctors_.take(frame); break;
  }
}

/// What arrives from a rank's streams after this frame is of the process that has started.
void RemoteRanks::take_start(const Frame& frame) {
  rank_at(frame.subject).pid = static_cast<pid_t>(frame.number);
  for (const int stream : {2 * frame.subject, 2 * frame.subject + 1})
    streams_[static_cast<std::size_t>(stream)].ended = false;
}

void RemoteRanks::take_end(Ended end) {
  if (std::exchange(rank_at(end.rank).running, false)) ended_.push_back(std::move(end));
}

void RemoteRanks::take_stop(const Frame& frame) {
  rank_at(frame.subject).stopped = true;
  stopped_.push_back({frame.subject, static_cast<int>(frame.number)});
  say_stops_at_ = std::min(say_stops_at_, deadline_in(for_other_stops));
}

void RemoteRanks::say_stops() {
  const bool others_run =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.running && !r.stopped; });
  for (const Stopped& one : std::exchange(stopped_, {}))
    if (rank_at(one.rank).running) say_stopped(sinks_.error(), one.rank, whereabouts(one.rank), one.signal, others_run);
  say_stops_at_ = never;
}

/// Returns, for a message, which host starts `host`; empty if the launcher starts it.
std::string RemoteRanks::started_from(std::size_t host) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Branch& b) { return host < b.end(); });
  if (part == parts_.end() || part->first == host) return {};
  return fmt::format(" (it is started from host '{}', which has to be able to; --fan-out {} has all started from here)",
                     job_.hosts[starter(*part, host, static_cast<std::size_t>(job_.fan_out))].name, job_.hosts.size());
}

/// Returns why a host is lost, with the names of the other `count` - 1 hosts that are lost with it.
std::string RemoteRanks::with_names(const std::string& why, std::size_t first, std::size_t count) const {
  constexpr std::size_t most_named = 32;
  if (count == 1) return why;
  std::vector<std::string> names;
  for (std::size_t i = 1; i < count && i <= most_named; ++i) names.push_back(job_.hosts[first + i].name);
  if (count - 1 > most_named) names.push_back(fmt::format("{} more", count - 1 - most_named));
  return fmt::format("{}; with it went the hosts that were started from there: {}", why, fmt::join(names, ", "));
}

/// Handles the loss of an agent and of all hosts below it.
void RemoteRanks::lose(const Frame& frame) {
  const auto first = static_cast<std::size_t>(frame.subject), count = static_cast<std::size_t>(frame.number);
  const std::string& name = job_.hosts[first].name;
  if (!going_) {
    if (!trouble_)
      trouble_ = Trouble{
          fmt::format("no rank can be started on host '{}': {}{}", name, printable(frame.text), started_from(first)),
          exit_host_lost};
    return;
  }
  std::string why = with_names(printable(frame.text), first, count);
  for (std::size_t host = first; host < first + count; ++host) {
    doctors_.lose(host, host == first ? printable(frame.text) : why);
    for (const int rank : job_.hosts[host].ranks) {
      take_end({rank, 0, why});
      rank_at(rank).lost = why;
      for (const int stream : {2 * rank, 2 * rank + 1}) {
        streams_[static_cast<std::size_t>(stream)].ended = true;
        pump(static_cast<std::size_t>(stream));
      }
      if (host == first) why = printable(frame.text);  // the other hosts are named only once
    }
    why = fmt::format("the way there led over host '{}', which is lost", name);
  }
}

/// Also writes what the ended ranks have written, so that it precedes the launcher's message about their end.
std::vector<Ended> RemoteRanks::ended() {
  for (Ended& end : ended_) {
    end.where = whereabouts(end.rank);
    for (const int stream : {2 * end.rank, 2 * end.rank + 1})
      if (Stream& it = streams_[static_cast<std::size_t>(stream)]; it.backlog.empty()) it.lines.end();
  }
  return std::exchange(ended_, {});
}

void RemoteRanks::let_go() {
  going_ = true;
  below_.say({Say::go, 0, 0, {}});
}

/// Writes output that had to wait. A rank whose reader has gone gets SIGPIPE, as it would without the launcher.
void RemoteRanks::pump_all() {
  const Deadline now = Clock::now();
  const std::vector<std::size_t> waiting(unfinished_.begin(), unfinished_.end());
  for (const std::size_t index : waiting) pump(index);
  for (const std::size_t index : waiting) {  // afterwards, because pump() may end a line for which others wait
    streams_[index].lines.flush_if_due(now);
    pump(index);
  }
  if (!going_) return;
  for (const Sink* sink : {&sinks_.output, &sinks_.error_alone}) {
    if (!sink->reader_gone() || !given_up_.insert(sink).second) continue;
    for (std::size_t index = 0; index < streams_.size(); ++index)
      if (&streams_[index].lines.sink() == sink)
        below_.say_to(static_cast<int>(index / 2), {Say::taken, static_cast<std::int32_t>(index), -1, {}});
  }
}

/// Moves the backlog to the sink, if the sink has room.
void RemoteRanks::pump(std::size_t index) {
  Stream& stream = streams_[index];
  if (!stream.backlog.empty() && !stream.lines.sink().full()) {
    stream.lines.put(stream.backlog);
    below_.say_to(static_cast<int>(index / 2),
                  {Say::taken, static_cast<std::int32_t>(index), static_cast<std::int64_t>(stream.backlog.size()), {}});
    stream.backlog.clear();
  }
  if (stream.ended && stream.backlog.empty()) stream.lines.end();
  if (!stream.backlog.empty() || stream.lines.due() != never)
    unfinished_.insert(index);
  else
    unfinished_.erase(index);
}

/// Returns true if stdin may be read. A terminal is read only while the launcher is in the foreground.
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
  below_.say_to(0, {Say::input, 0, 0, std::move(text)});
}

Deadline RemoteRanks::next_look() const {
  Deadline first = std::min({say_stops_at_, below_.next_look(), doctors_.next_look()});
  for (const std::size_t index : unfinished_) first = std::min(first, streams_[index].lines.due());
  return first;
}

std::string RemoteRanks::whereabouts(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  const std::string& host = job_.hosts[about.host].name;
  return about.pid < 0 ? host : fmt::format("{}, pid {}", host, about.pid);
}

void RemoteRanks::finish() {
  finishing_ = true;
  if (going_)
    below_.say({Say::end, 0, 0, {}});
  else
    below_.kill();
}

bool RemoteRanks::talking() {
  const bool waits = std::any_of(unfinished_.begin(), unfinished_.end(),
                                 [&](std::size_t index) { return !streams_[index].backlog.empty(); });
  if (waits || !below_.over()) return true;
  if (!std::exchange(told_, true))
    log(LogLevel::debug, fmt::format("started {} of {} agents itself; {} wakes, {} reads of channels, {} in vain",
                                     parts_.size(), job_.hosts.size(), reads().wakes, reads().all, reads().in_vain));
  return false;
}

}  // namespace

std::unique_ptr<Ranks> make_remote_ranks(const Job& job, Sinks& sinks) {
  return std::make_unique<RemoteRanks>(job, sinks);
}

}  // namespace tutti::tools
