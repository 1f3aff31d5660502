// The ends of ranks: what is said of them, what follows, and which ranks are replaced.
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/doctor/recording.hpp"
#include "tools/run/session.hpp"
#include "transports/core/ranges.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds between_looks(1);  // at replacements that may wait in vain

}  // namespace

void Session::reap() {
  std::vector<int> failed, gone;
  bool news = false;
  for (const Ended& end : ranks_.ended()) {
    Rank& rank = at(end.rank);
    if (std::exchange(rank.running, false)) --running_;
    rank.end = end;
    if (!rank.replaces) gone.push_back(end.rank);  // ranks that start together wait for one another by their numbers
    if (exit_code_of(end) == 0)
      finished_ = true;
    else if (!only_replacements_ || !rank.ended_by_us)
      failed.push_back(end.rank);
    news = true;
  }
  if (running() || (replacements_.on() && !failed.empty()))
    for (const int rank : gone) departures_.tell(rank, end_text(rank));
  if (job_.keep_going && stage_ == Stage::running) {
    if (finished_) stop_replacements();
    for (const int rank : failed) tell_and_keep_going(rank);
    if (news && replacements_.on()) look_at_the_rest();
    return;
  }
  if (!failed.empty() && !first_failure_) fail_first(failed);
}

void Session::tell_and_keep_going(int rank) {
  at(rank).told = true;
  const Ended& end = at(rank).end;
  const int left = processes_left();
  const auto pause = may_be_replaced(end) ? replacements_.failed(rank, Clock::now()) : std::nullopt;
  if (!pause && !first_failure_) first_failure_ = rank;
  const bool others = left > 0 && (finished_ || processes_left() >= job_.elastic.least);
  say(fmt::format("{}; {}", end_text(rank),
                  replacements_.on() ? replacements_.consequence(pause, others)
                  : others           ? "the others go on"
                                     : "it was the last"));
  say_last_words(end);
}

/// A rank that is lost with its host has no place any more, and one that dies of a signal to all was meant to.
bool Session::may_be_replaced(const Ended& end) const {
  return end.lost.empty() && !told_to_end_ && !(WIFSIGNALED(end.status) && forwarded_.contains(WTERMSIG(end.status)));
}

void Session::start_replacements() {
  if (stage_ != Stage::running || told_to_end_) stop_replacements();
  while (const auto start = replacements_.take(Clock::now())) {
    at(start->rank) = {.replaces = true};
    ++running_;
    ranks_.restart(start->rank, start->number);
  }
}

/// Drops the replacements that wait. A rank that would have got one has failed, unless the job has reached its end.
void Session::stop_replacements() {
  for (const int rank : replacements_.stop())
    if (!finished_ && !first_failure_) first_failure_ = rank;
}

/// Ends an elastic job that has too few ranks left, or whose only ranks left are replacements that wait in vain to be
/// admitted. If others have finished, all replacements without calls count as such, else only those that wait by their
/// records: a program may make no communicator.
void Session::look_at_the_rest() {
  look_again_ = never;
  const bool too_few = processes_left() < job_.elastic.least;
  if (finished_ ? !running() : !too_few && ranks_.recorder() < 0) return;
  bool anyone = false, all_wait = running();
  for (int rank = 0; rank < job_.ranks; ++rank) {
    if (!at(rank).running) continue;
    anyone |= takes_part(rank);
    all_wait &= waits_to_join(rank);
  }
  if (finished_) {
    if (anyone) return;
    only_replacements_ = true;
  } else {
    if (!too_few && !anyone && !all_wait) look_again_ = deadline_in(between_looks);
    if (!too_few && !all_wait) return;
    if (!told_to_end_) say(too_few ? replacements_.too_few(processes_left()) : Replacements::nobody_admits());
  }
  stage_ = Stage::grace;
  next_stage_at_ = deadline_in(grace());
}

/// Returns false for a replacement that may not have been admitted: its records do not show that it has connected to
/// others or made calls, or there are none here.
bool Session::takes_part(int rank) const {
  const auto place = static_cast<std::size_t>(rank);  // on one host, records are in the order of the ranks
  if (!all_[place].replaces) return true;
  const auto recording = ranks_.recorder() < 0 ? std::nullopt : doctor::read_recording(ranks_.recorder(), place);
  return recording && (recording->stage == tutti::Stage::running || !recording->calls.empty());
}

/// Returns true if the records of a replacement show that nobody has admitted it.
bool Session::waits_to_join(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  if (!all_[place].replaces || ranks_.recorder() < 0) return false;
  const auto recording = doctor::read_recording(ranks_.recorder(), place);
  return recording && recording->stage == tutti::Stage::connecting && recording->calls.empty();
}

/// Returns true if a rank has handled the signal that ends the job, and has ended by itself.
bool Session::ended_as_told(const Ended& end) const {
  return ended_by_ && end.lost.empty() && WIFEXITED(end.status) &&
         WEXITSTATUS(end.status) == exit_signal_base + *ended_by_;
}

std::string Session::end_text(int rank) const {
  const Ended& end = all_[static_cast<std::size_t>(rank)].end;
  if (!end.unstarted.empty()) return fmt::format("rank {} {}", rank, how_it_ended(end));
  return fmt::format("rank {} ({}) {}", rank, end.where, how_it_ended(end));
}

void Session::fail_first(std::vector<int>& ended) {
  // If several failures are seen at once, a killed rank is the likelier cause.
  const auto killed = [&](int rank) { return !at(rank).end.lost.empty() || WIFSIGNALED(at(rank).end.status); };
  std::stable_partition(ended.begin(), ended.end(), killed);
  first_failure_ = ended.front();
  const Rank& first = at(*first_failure_);
  if (!limit_passed_ && !first.ended_by_us && !ended_as_told(first.end)) {
    say(end_text(*first_failure_));
    if (!ended_by_) say_last_words(first.end);
  }
  if (stage_ == Stage::running) {
    stage_ = Stage::grace;
    next_stage_at_ = deadline_in(grace());
  }
}

void Session::say_last_words(const Ended& end) {
  if (!end.last.empty()) say(fmt::format("the records say of rank {}: {}", end.rank, end.last));
}

void Session::summarise() {
  if (!first_failure_ || only_replacements_ || (job_.keep_going && stage_ == Stage::running)) return;
  const bool told = !limit_passed_ && !at(*first_failure_).ended_by_us;
  // key: true if the launcher ended the rank, and how the rank ended; value: the ranks
  std::map<std::pair<bool, std::pair<int, std::string>>, std::vector<int>> ways;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    const Rank& rank = at(i);
    if ((i == *first_failure_ && told) || rank.told || exit_code_of(rank.end) == 0 || ended_as_told(rank.end)) continue;
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

}  // namespace tutti::tools
