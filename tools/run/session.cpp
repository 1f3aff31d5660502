// A session of the launcher: signals, output, and the shutdown. session_ends.cpp has the ends of ranks.
#include "tools/run/session.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/doctor/opinion.hpp"
#include "tools/run/channel.hpp"
#include "transports/core/ranges.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds from_term_to_kill(1);
constexpr Seconds patience(1);  // how long a reader may read nothing after the job is told to end

int poll_milliseconds(Deadline until) {
  if (until == never) return -1;
  if (until <= Clock::now()) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

}  // namespace

int Session::run() {
  if (const auto trouble = ranks_.start(job_)) return give_up(*trouble);
  if (job_.time_limit > 0) limit_ = deadline_in(Seconds(job_.time_limit));
  if (const auto trouble = loop()) return give_up(*trouble);
  ranks_.finish();
  drain();
  summarise();
  if (const std::string text = replacements_.summary(); !text.empty()) say(text);
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
  while (processes_left() > 0) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    for (const Sink* sink : {&sinks_.output, &sinks_.error_alone})
      entries.push_back({sink->pending() ? sink->fd() : -1, POLLOUT, 0});
    ranks_.watch(entries);
    const Deadline until = std::min(
        {next_stage_at_, limit_, look_again_, ranks_.next_look(), departures_.next_try(), replacements_.next()});
    ++reads().wakes;
    if (poll(entries.data(), entries.size(), poll_milliseconds(until)) < 0 && errno != EINTR)
      throw Error(Code::resource, std::string("poll: ") + std::strerror(errno));
    if (entries[1].revents != 0) sinks_.output.flush();
    if (entries[2].revents != 0) sinks_.error_alone.flush();
    if (auto trouble = ranks_.serve(std::span(entries).subspan(3))) return trouble;
    if (entries[0].revents != 0) take_signals();
    start_replacements();
    reap();
    output_is_lost();
    const Deadline now = Clock::now();
    if (now >= departures_.next_try()) departures_.try_again();
    if (now >= look_again_ && stage_ == Stage::running) look_at_the_rest();
    if (now >= next_stage_at_) next_stage();
    if (now >= limit_) {
      say(fmt::format("the time limit of {} s has passed; ending all {} ranks", job_.time_limit, job_.ranks));
      say_who_is_late();
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
    forwarded_.insert(*signal);
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

/// Says whom the ranks wait for, as far as the records of this host tell.
void Session::say_who_is_late() {
  if (ranks_.recorder() < 0) return;
  const std::string text = doctor::last_sentence(job_.variable("TUTTI_JOB"), ranks_.recorder(),
                                                 job_.variable("TUTTI_RECORDER"), doctor::usual_patience);
  if (!text.empty()) say("the records say: " + text);
}

void Session::next_stage() {
  if (stage_ == Stage::grace) {
    stage_ = Stage::terminated;
    next_stage_at_ = deadline_in(from_term_to_kill);
    if (ended_by_)
      say(fmt::format("{} s after {} ranks still run; ending them", grace().count(), signal_name(*ended_by_)));
    if (only_replacements_ && !limit_passed_) say_who_waits_in_vain();
    kill_all(SIGTERM);
  } else {
    stage_ = Stage::killed;
    next_stage_at_ = never;
    kill_all(SIGKILL);
  }
}

void Session::say_who_waits_in_vain() {
  std::vector<int> ranks;
  for (int rank = 0; rank < job_.ranks; ++rank)
    if (at(rank).running) ranks.push_back(rank);
  const bool one = ranks.size() == 1;
  say(fmt::format("the replacement{} of {} still run{} {} s after the others have finished (--grace); ending {}",
                  one ? "" : "s", ranks_text(ranks), one ? "s" : "", grace().count(), one ? "it" : "them"));
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

}  // namespace tutti::tools
