#include "collectives/doctor/clocks.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "tutti/collective.hpp"

namespace tutti::doctor {
namespace {

using What = RecordedCall::What;
using State = RecordedCall::State;
using CallKey = std::pair<std::uint64_t, std::uint32_t>;  // communicator, number

constexpr int most_rounds = 64;
constexpr std::size_t most_pairwise = 32;  // of more hosts, each is compared only with the first and the last
constexpr Time close_enough = 1'000;       // 1 us

constexpr Time never_ended = std::numeric_limits<Time>::max();

/// When the last rank of a host has begun a call, and when the first one has ended it, by the host's clock.
struct Span {
  Time begun = 0, ended = never_ended;
};
using Spans = std::map<CallKey, std::map<std::size_t, Span>>;  // by the number of the host

/// Host `before` has to be this much ahead of host `after`, or more, since `after` ended a call that `before` had
/// begun.
struct Bound {
  std::size_t before = 0, after = 0;
  Time least = 0;
};

bool synchronizes(const RecordedCall& call) {
  if (call.what != What::collective) return false;
  const std::string text = describe(call.call);
  const std::string kind = text.substr(0, text.find('('));
  return kind == "barrier" || kind == "allreduce" || kind == "allgather" || kind == "reduce_scatter" ||
         kind == "alltoall";
}

Spans spans_of(const std::vector<Patient>& patients, const std::map<std::string, std::size_t>& hosts) {
  Spans calls;
  for (const Patient& one : patients)
    for (const RecordedCall& call : one.recording.calls) {
      if (call.launched == 0 || !synchronizes(call)) continue;
      Span& span = calls[{call.group, call.sequence}][hosts.at(one.recording.host)];
      span.begun = std::max(span.begun, call.launched);
      if (call.state == State::done && call.ended != 0) span.ended = std::min(span.ended, call.ended);
    }
  return calls;
}

/// The strongest bound between any two hosts.
std::vector<Bound> bounds_of(const Spans& calls) {
  std::map<std::pair<std::size_t, std::size_t>, Time> strongest;
  const auto note = [&](std::size_t before, const Span& begins, std::size_t after, const Span& ends) {
    if (before == after || ends.ended == never_ended) return;
    const Time least = begins.begun - ends.ended;
    const auto [known, is_new] = strongest.try_emplace({before, after}, least);
    if (!is_new) known->second = std::max(known->second, least);
  };
  for (const auto& [_, hosts] : calls) {
    const auto last = std::ranges::max_element(hosts, {}, [](const auto& one) { return one.second.begun; });
    const auto first = std::ranges::min_element(hosts, {}, [](const auto& one) { return one.second.ended; });
    for (const auto& [host, span] : hosts) {
      note(last->first, last->second, host, span);
      note(host, span, first->first, first->second);
      if (hosts.size() <= most_pairwise)
        for (const auto& [other, others] : hosts) note(host, span, other, others);
    }
  }
  std::vector<Bound> bounds;
  for (const auto& [hosts, least] : strongest) bounds.push_back({hosts.first, hosts.second, least});
  return bounds;
}

/// Moves the two clocks of a bound that does not hold, each in proportion to its error. Returns true if they move.
bool move(const Bound& bound, std::vector<HostClock>& clocks, const std::vector<HostClock>& measured) {
  HostClock &before = clocks[bound.before], &after = clocks[bound.after];
  const Time missing = bound.least - (before.ahead - after.ahead);
  if (missing <= close_enough) return false;
  const Time up = measured[bound.before].ahead + before.error - before.ahead,  // how far each can still be moved
      down = after.ahead - (measured[bound.after].ahead - after.error);
  const double share =
      static_cast<double>(before.error) / static_cast<double>(std::max<Time>(before.error + after.error, 1));
  const Time first = std::clamp<Time>(static_cast<Time>(share * static_cast<double>(missing)), 0, up);
  const Time second = std::clamp<Time>(missing - first, 0, down);
  before.ahead += first;
  after.ahead -= second;
  return first + second > close_enough;
}

}  // namespace

std::vector<HostClock> clocks_of(const std::vector<Patient>& patients, const std::vector<HostClock>& measured) {
  std::map<std::string, std::size_t> numbers;
  std::vector<HostClock> clocks;
  for (const Patient& one : patients) {
    if (!numbers.try_emplace(one.recording.host, clocks.size()).second) continue;
    const auto known = std::ranges::find(measured, one.recording.host, &HostClock::host);
    clocks.push_back(known == measured.end() ? HostClock{one.recording.host, 0, unknown_clock} : *known);
  }
  if (clocks.size() < 2) return clocks;
  if (measured.empty()) clocks.front().error = 0;  // the others follow the first
  const std::vector<HostClock> before = clocks;
  const std::vector<Bound> bounds = bounds_of(spans_of(patients, numbers));
  bool moved = true;
  for (int round = 0; moved && round < most_rounds; ++round) {
    moved = false;
    for (const Bound& bound : bounds) moved |= move(bound, clocks, before);
  }
  return clocks;
}

void align(std::vector<Patient>& patients, const std::vector<HostClock>& clocks) {
  for (Patient& one : patients) {
    const auto clock = std::ranges::find(clocks, one.recording.host, &HostClock::host);
    if (clock == clocks.end() || clock->ahead == 0) continue;
    const auto shift = [&](Time& time) {
      if (time != 0) time -= clock->ahead;
    };
    shift(one.recording.staged_at);
    shift(one.recording.looked_at);
    for (RecordedCommunicator& made : one.recording.communicators) shift(made.made);
    for (RecordedCall& call : one.recording.calls)
      for (Time* const time : {&call.launched, &call.ended, &call.first}) shift(*time);
  }
}

}  // namespace tutti::doctor
