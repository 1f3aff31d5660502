// A session of the launcher: signals, output, the ends of ranks, and the shutdown.
#include "tools/run/job.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "collectives/bootstrap/socket.hpp"
#include "tools/run/addresses.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/departures.hpp"
#include "tools/run/make_ranks.hpp"
#include "tools/run/spawn.hpp"
#include "transports/core/ranges.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"
#include "tutti/store.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds from_term_to_kill(1);
constexpr Seconds patience(1);  // how long a reader may read nothing after the job is told to end

int exit_code_of(const Ended& end) {
  if (!end.lost.empty()) return exit_host_lost;
  return WIFSIGNALED(end.status) ? exit_signal_base + WTERMSIG(end.status) : WEXITSTATUS(end.status);
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : "no name";
}

std::string how_it_ended(const Ended& end, const char* verb = "was") {
  if (!end.lost.empty())
    return fmt::format("{} lost with {} host: {}", verb, verb == std::string_view("were") ? "their" : "its", end.lost);
  if (!WIFSIGNALED(end.status)) return fmt::format("exited with code {}", WEXITSTATUS(end.status));
  const int signal = WTERMSIG(end.status);
  return fmt::format("{} killed by signal {} ({}){}", verb, signal, signal_name(signal),
                     WCOREDUMP(end.status) ? ", core dumped" : "");
}

int poll_milliseconds(Deadline until) {
  if (until == never) return -1;
  if (until <= Clock::now()) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

struct Rank {
  bool running = true;
  bool ended_by_us = false;  ///< SIGTERM or SIGKILL was sent to it
  Ended end;
};

class Session {
 public:
  Session(const Job& job, Signals& signals, Sinks& sinks, Ranks& ranks, Departures& departures)
      : job_(job),
        signals_(signals),
        sinks_(sinks),
        ranks_(ranks),
        departures_(departures),
        all_(static_cast<std::size_t>(job.ranks)),
        running_(job.ranks) {}

  int run();

 private:
  enum class Stage { running, grace, terminated, killed };

  std::optional<Trouble> loop();
  int give_up(const Trouble& trouble);
  void take_signals();
  void end_by(int signal);
  Seconds grace() const;
  void reap();
  void fail_first(std::vector<int>& ended);
  void tell_and_keep_going(int rank);
  std::string end_text(int rank) const;
  bool ended_as_told(const Ended& end) const;
  void next_stage();
  void kill_all(int signal);
  void drain();
  void summarise();
  bool output_is_lost();
  void say(std::string_view line) { sinks_.error().put(fmt::format("tutti run: {}\n", line)); }
  Rank& at(int rank) { return all_[static_cast<std::size_t>(rank)]; }
  bool running() const noexcept { return running_ > 0; }

  const Job& job_;
  Signals& signals_;
  Sinks& sinks_;
  Ranks& ranks_;
  Departures& departures_;
  std::vector<Rank> all_;
  int running_;  ///< how many ranks run
  Stage stage_ = Stage::running;
  Deadline next_stage_at_ = never;
  Deadline limit_ = never;
  std::optional<int> first_failure_;  ///< the rank that failed first
  bool limit_passed_ = false;
  bool told_to_end_ = false;     ///< a signal has told the job to end
  std::optional<int> ended_by_;  ///< SIGTERM or SIGINT, if it came before a failure and before the time limit
  bool told_of_loss_ = false;
  int interrupts_ = 0;
};

int Session::run() {
  if (const auto trouble = ranks_.start(job_)) return give_up(*trouble);
  if (job_.time_limit > 0) limit_ = deadline_in(Seconds(job_.time_limit));
  if (const auto trouble = loop()) return give_up(*trouble);
  ranks_.finish();
  drain();
  summarise();
  drain();
  const bool lost = output_is_lost();
  if (limit_passed_) return exit_time_limit;
  if (ended_by_) return exit_signal_base + *ended_by_;
  return first_failure_ ? exit_code_of(at(*first_failure_).end) : lost ? 1 : 0;
}

/// Ends the job if ranks could not be started: kills those that were started.
int Session::give_up(const Trouble& trouble) {
  say(trouble.line);
  ranks_.signal(SIGKILL);
  ranks_.finish();
  told_to_end_ = true;
  drain();
  return trouble.exit_code;
}

std::optional<Trouble> Session::loop() {
  while (running()) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    for (const Sink* sink : {&sinks_.output, &sinks_.error_alone})
      entries.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
    ranks_.watch(entries);
    const Deadline until = std::min({next_stage_at_, limit_, ranks_.next_look(), departures_.next_try()});
    ++reads().wakes;
    if (poll(entries.data(), entries.size(), poll_milliseconds(until)) < 0 && errno != EINTR)
      throw Error(Code::resource, std::string("poll: ") + std::strerror(errno));
    if (entries[1].revents != 0) sinks_.output.flush();
    if (entries[2].revents != 0) sinks_.error_alone.flush();
    if (auto trouble = ranks_.serve(std::span(entries).subspan(3))) return trouble;
    if (entries[0].revents != 0) take_signals();
    reap();
    output_is_lost();
    const Deadline now = Clock::now();
    if (now >= departures_.next_try()) departures_.try_again();
    if (now >= next_stage_at_) next_stage();
    if (now >= limit_) {
      say(fmt::format("the time limit of {} s has passed; ending all {} ranks", job_.time_limit, job_.ranks));
      limit_ = never;
      limit_passed_ = true;
      stage_ = Stage::grace;
      next_stage();
    }
  }
  return std::nullopt;
}

void Session::take_signals() {
  while (const auto signal = signals_.next()) {
    if (*signal == SIGCHLD) {
      ranks_.reap();
      continue;
    }
    told_to_end_ |= *signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP || *signal == SIGQUIT;
    if (*signal == SIGINT && ++interrupts_ > 1) {
      kill_all(SIGKILL);
      continue;
    }
    if (*signal == SIGINT || *signal == SIGTERM) end_by(*signal);
    ranks_.signal(*signal);
    if (*signal == SIGTSTP) raise(SIGSTOP);  // stops the launcher until SIGCONT, which is forwarded like the others
  }
}

/// Begins to end the job. A batch system sends SIGTERM only once, so ranks that ignore it are killed after a while.
void Session::end_by(int signal) {
  if (stage_ != Stage::running) return;
  ended_by_ = signal;
  limit_ = never;
  stage_ = Stage::grace;
  next_stage_at_ = deadline_in(grace());
}

/// Returns the time before SIGTERM. It is longer after a signal than after a failure, because ranks may save their
/// state.
Seconds Session::grace() const { return Seconds(job_.grace.value_or(ended_by_ ? 30 : 2)); }

void Session::reap() {
  std::vector<int> failed, gone;
  for (const Ended& end : ranks_.ended()) {
    if (std::exchange(at(end.rank).running, false)) --running_;
    at(end.rank).end = end;
    gone.push_back(end.rank);
    if (exit_code_of(end) != 0) failed.push_back(end.rank);
  }
  if (running())
    for (const int rank : gone) departures_.tell(rank, end_text(rank));
  if (job_.keep_going && stage_ == Stage::running) {
    for (const int rank : failed) tell_and_keep_going(rank);
    return;
  }
  if (!failed.empty() && !first_failure_) fail_first(failed);
}

void Session::tell_and_keep_going(int rank) {
  if (!first_failure_) first_failure_ = rank;
  say(fmt::format("{}; {}", end_text(rank), running() ? "the others go on" : "it was the last"));
}

/// Returns true if a rank has handled the signal that ends the job, and has ended by itself.
bool Session::ended_as_told(const Ended& end) const {
  return ended_by_ && end.lost.empty() && WIFEXITED(end.status) &&
         WEXITSTATUS(end.status) == exit_signal_base + *ended_by_;
}

std::string Session::end_text(int rank) const {
  const Ended& end = all_[static_cast<std::size_t>(rank)].end;
  return fmt::format("rank {} ({}) {}", rank, ranks_.whereabouts(rank), how_it_ended(end));
}

void Session::fail_first(std::vector<int>& ended) {
  // If several failures are seen at once, a killed rank is the likelier cause.
  const auto killed = [&](int rank) { return !at(rank).end.lost.empty() || WIFSIGNALED(at(rank).end.status); };
  std::stable_partition(ended.begin(), ended.end(), killed);
  first_failure_ = ended.front();
  const Rank& first = at(*first_failure_);
  if (!limit_passed_ && !first.ended_by_us && !ended_as_told(first.end)) say(end_text(*first_failure_));
  if (stage_ == Stage::running) {
    stage_ = Stage::grace;
    next_stage_at_ = deadline_in(grace());
  }
}

void Session::next_stage() {
  if (stage_ == Stage::grace) {
    stage_ = Stage::terminated;
    next_stage_at_ = deadline_in(from_term_to_kill);
    if (ended_by_)
      say(fmt::format("{} s after {} ranks still run; ending them", grace().count(), signal_name(*ended_by_)));
    kill_all(SIGTERM);
  } else {
    stage_ = Stage::killed;
    next_stage_at_ = never;
    kill_all(SIGKILL);
  }
}

void Session::kill_all(int signal) {
  for (Rank& rank : all_)
    if (rank.running) rank.ended_by_us = true;
  ranks_.signal(signal);
}

/// Returns true if output of ranks could not be written; reports that once. A reader that has gone is no loss.
bool Session::output_is_lost() {
  for (const Sink* sink : {&sinks_.output, &sinks_.error_alone}) {
    if (sink->lost() == 0) continue;
    if (!std::exchange(told_of_loss_, true)) {
      say(fmt::format("{} cannot be written: {}; what the ranks write from now on is lost, and the exit code is not 0",
                      sink == &sinks_.output ? "stdout" : "stderr", std::strerror(sink->lost())));
      sinks_.error().flush();
    }
    return true;
  }
  return false;
}

/// Writes the remaining output as fast as it is read. After the job is told to end, a reader that reads nothing for
/// `patience` is abandoned.
void Session::drain() {
  Deadline give_up = never;
  for (;;) {
    const bool more = ranks_.talking();
    bool moved = sinks_.output.flush();
    moved |= sinks_.error_alone.flush();
    if (!more && !sinks_.output.pending() && !sinks_.error_alone.pending()) return;
    if ((told_to_end_ || limit_passed_) && (moved || give_up == never)) give_up = deadline_in(patience);
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    for (const Sink* sink : {&sinks_.output, &sinks_.error_alone})
      entries.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
    ranks_.watch(entries);
    ++reads().wakes;
    poll(entries.data(), entries.size(), poll_milliseconds(std::min({give_up, limit_, ranks_.next_look()})));
    static_cast<void>(ranks_.serve(std::span(entries).subspan(3)));
    if (entries[0].revents != 0) take_signals();
    const Deadline now = Clock::now();
    if (now >= give_up) return;
    if (now < limit_) continue;
    limit_ = never;
    limit_passed_ = true;
  }
}

void Session::summarise() {
  if (!first_failure_ || (job_.keep_going && stage_ == Stage::running)) return;
  const bool told = !limit_passed_ && !at(*first_failure_).ended_by_us;
  // key: true if the launcher ended the rank, and how the rank ended; value: the ranks
  std::map<std::pair<bool, std::pair<int, std::string>>, std::vector<int>> ways;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    const Rank& rank = at(i);
    if ((i == *first_failure_ && told) || exit_code_of(rank.end) == 0 || ended_as_told(rank.end)) continue;
    const int status = rank.end.lost.empty() ? rank.end.status : 0;
    ways[{rank.ended_by_us, rank.ended_by_us ? std::pair(0, std::string()) : std::pair(status, rank.end.lost)}]
        .push_back(i);
  }
  for (const auto& [way, who] : ways) {
    const char* verb = who.size() == 1 ? "was" : "were";
    const std::string end = way.first ? fmt::format("did not end in time and {} ended", verb)
                                      : how_it_ended({who.front(), way.second.first, way.second.second}, verb);
    say(fmt::format("afterwards {} {}", ranks_text(who), end));
  }
}

/// Starts a store that the ranks can reach, unless the user has named one. Returns its URL for this process.
std::string serve_store(Job& job, std::optional<TcpStoreServer>& server) {
  if (job.variables.contains("TUTTI_STORE")) return job.variables.at("TUTTI_STORE");
  const std::string loopback = sockets::loopback_host(), secret = job.variables.at("TUTTI_SECRET");
  server.emplace(job.hosts.empty() ? loopback : job.address, 0, secret, static_cast<std::size_t>(job.ranks));
  if (job.hosts.empty()) {
    job.variables["TUTTI_STORE"] = store_url(loopback, server->port());
  } else if (!job.address.empty()) {
    job.stores = {store_url(job.address, server->port())};
  } else {
    for (const std::string& address : own_addresses()) job.stores.push_back(store_url(address, server->port()));
  }
  return job.stores.empty() ? job.variables.at("TUTTI_STORE") : job.stores.back();
}

/// Returns the launcher's number of descriptors: two per rank or host that it starts, and the clients of its store.
std::size_t descriptors_for(const Job& job) {
  const auto ranks = static_cast<std::size_t>(job.ranks);
  const std::size_t clients = job.variables.contains("TUTTI_STORE") ? 0 : ranks;
  const std::size_t started =
      job.hosts.empty() ? ranks : std::min(job.hosts.size(), static_cast<std::size_t>(job.fan_out));
  return clients + 2 * started;
}

}  // namespace

int run_job(const Job& asked) {
  Job job = asked;
  raise_descriptor_limit(job.ranks);
  if (const std::string why = too_few_descriptors(descriptors_for(job)); !why.empty()) {
    fmt::print(stderr, "tutti run: {}\n", why);
    return exit_not_executable;
  }
  Signals signals;
  Sinks sinks;
  const auto ranks = job.hosts.empty() ? make_local_ranks(job, sinks) : make_remote_ranks(job, sinks);
  // The guard must be forked while this process has one thread, so the server, which starts a thread, comes after it.
  std::optional<TcpStoreServer> server;
  const std::string store = serve_store(job, server);
  Departures departures(store, job.variables.at("TUTTI_SECRET"), job.variables.at("TUTTI_JOB"), job.ranks);
  return Session(job, signals, sinks, *ranks, departures).run();
}

}  // namespace tutti::tools
