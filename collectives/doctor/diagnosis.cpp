#include "collectives/doctor/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "collectives/doctor/findings.hpp"
#include "collectives/doctor/held.hpp"
#include "collectives/doctor/waits.hpp"
#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;
using Life = Patient::Life;
using State = RecordedCall::State;
using What = RecordedCall::What;

// ---- calls that differ --------------------------------------------------------------------------

/// The ranks by what they made as this call.
using Versions = std::map<std::uint64_t, std::vector<int>>;

Versions versions_of(const Job& job, const RecordedCall& call) {
  Versions versions;
  for (const int member : job.members(call.group))
    if (const auto* const made = member < 0 ? nullptr : job.call(member, call.group, call.sequence); made != nullptr)
      versions[made->call.bits].push_back(member);
  return versions;
}

/// True if `rank` made the call with signature `call` as one of its next ones: then only the order differs.
bool makes_later(const Job& job, int rank, const RecordedCall& there, std::uint64_t call) {
  constexpr std::uint32_t near = 8;
  for (std::uint32_t next = 1; next <= near; ++next)
    if (const auto* const made = job.call(rank, there.group, there.sequence + next);
        made != nullptr && made->call.bits == call)
      return true;
  return false;
}

Finding mismatch_of(const Job& job, const RecordedCall& call, const Versions& versions) {
  const auto odd = std::ranges::min_element(versions, {}, [](const auto& one) { return one.second.size(); });
  Finding found{
      Kind::mismatch, odd->second,
      "The ranks do not agree on call " + std::to_string(call.sequence) + " of " + job.name(call.group) + ":"};
  std::string parts;
  bool order = false;
  for (const auto& [bits, ranks] : versions) {
    const RecordedCall& made = *job.call(ranks.front(), call.group, call.sequence);
    parts += (parts.empty() ? " " : ", but ") + ranks_of(ranks) + " made " +
             (made.label.empty() ? "" : made.label + ", ") + describe(made.call);
    for (const auto& [other, others] : versions) order |= other != bits && makes_later(job, ranks.front(), call, other);
  }
  found.text += parts + ". " +
                (order ? "They make the same calls in another order: look at what decides the order."
                       : "All ranks must make the same calls, with equal counts and types, in the same order: look at "
                         "what differs on " +
                             ranks_of(found.culprits) + ".");
  return found;
}

/// Looks at calls that have not ended well on all ranks: after a call that has, the ranks agreed.
Found find_mismatch(const Job& job) {
  for (const auto& [rank, patient] : job.patients())
    for (const RecordedCall& call : patient->recording.calls) {
      if (call.what != What::collective || call.state == State::done) continue;
      if (const Versions versions = versions_of(job, call); versions.size() > 1)
        return mismatch_of(job, call, versions);
    }
  return std::nullopt;
}

// ---- ranks that others wait for -----------------------------------------------------------------

/// Another running or ended exchange between the two, with another tag: the likely mistake of an unmatched one.
std::string other_tag(const Job& job, const Held& held, int rank) {
  const Patient* const patient = job.patient(rank);
  if (patient == nullptr || held.waiters.empty()) return {};
  const int waiter = held.waiters.front();
  for (auto call = patient->recording.calls.rbegin(); call != patient->recording.calls.rend(); ++call) {
    if (!is_exchange(*call) || call->group != held.call->group || call->sequence == held.call->sequence) continue;
    const bool is_counterpart = held.call->from == rank ? call->peer == waiter : call->from == waiter;
    if (is_counterpart) return " It has made " + call_text(job, *call) + " instead: the tags differ.";
  }
  return {};
}

Finding held_up(const Job& job, const Waits& waits, int rank, bool is_sure) {
  const Held held = held_by(waits, rank);
  const std::string who = "rank " + std::to_string(rank);
  const bool exchange = is_exchange(*held.call);
  const std::string& waiting = call_text(job, *held.call);
  std::string text =
      exchange
          ? as_sentence(ranks_of(held.waiters)) + have(held.waiters) + " waited for " +
                time_text(job.now() - held.since) + " in " + waiting + ", and " + who + " has not made the " +
                (held.call->from == rank || held.call->from < -1 ? "send" : "receive") + " that it needs."
          : as_sentence(who) + " has not entered " + waiting + "; " + waiters_text(job, held.waiters, held.since) + ".";
  if (exchange) text += other_tag(job, held, rank);
  text += " As for " + who + ", " + state_text(job, rank) + ".";
  if (!is_sure) text += " Nothing is recorded of what it does now.";
  text += exchange ? " Each receive needs a send with the same tag, and each send a receive."
                   : " Look at what " + who + " does there: it has to make this call, too.";
  return {exchange ? Kind::unmatched : Kind::late, {rank}, text};
}

/// Names the rank that most others wait for, among those that do not wait themselves.
Found find_idle(const Job& job, const Waits& waits) {
  std::vector<int> idle = waits.idle();
  if (idle.empty()) return std::nullopt;
  const auto oldest = [&](int rank) { return held_by(waits, rank).since; };
  std::ranges::sort(idle, {}, oldest);
  Finding found = held_up(job, waits, idle.front(), job.patient(idle.front()) != nullptr);
  const Held first = held_by(waits, idle.front());
  for (const int rank : idle) {
    if (rank == idle.front()) continue;
    const Held other = held_by(waits, rank);
    if (other.call->group != first.call->group || other.call->sequence != first.call->sequence) continue;
    found.culprits.push_back(rank);
    found.text += " Neither has rank " + std::to_string(rank) + " made it: " + state_text(job, rank) + ".";
  }
  std::ranges::sort(found.culprits);
  return found;
}

Found find_deadlock(const Job& job, const Waits& waits) {
  const std::vector<Wait> circle = waits.circle();
  if (circle.empty()) return std::nullopt;
  Finding found{Kind::deadlock, {}, "The ranks wait for one another, so none can go on:"};
  std::string parts;
  bool exchanges = true;
  for (const Wait& one : circle) {
    found.culprits.push_back(one.waiter);
    exchanges = exchanges && is_exchange(*one.call);
    const std::vector<int> together = waiters_in(waits, *one.call, one.for_rank);
    parts += (parts.empty() ? " " : "; ") + ranks_of(together) + have(together) + " waited for rank " +
             std::to_string(one.for_rank) + " for " + time_text(job.now() - one.call->launched) + " in " +
             call_text(job, *one.call);
    if (const std::string& process = job.patient(one.waiter)->process; !process.empty())
      parts += ", and rank " + std::to_string(one.waiter) + " " + process;
  }
  std::ranges::sort(found.culprits);
  found.text +=
      parts + ". " +
      (exchanges ? "Let one of them send before it receives, or use a send and receive in one call."
                 : "Ranks that share several communicators must make the calls of all of them in one order, or "
                   "start them all before they wait for one.");
  return found;
}

// ---- calls that all have made -------------------------------------------------------------------

Found find_no_progress(const Job& job, const Waits& waits) {
  if (waits.complete().empty()) return std::nullopt;
  const auto longest =
      std::ranges::min_element(waits.complete(), {}, [](const auto& one) { return one.second->launched; });
  const auto& [first, call] = *longest;
  Finding found{Kind::no_progress, {}, ""};
  std::vector<int> inside;
  for (const auto& [rank, other] : waits.complete()) {
    inside.push_back(rank);
    if (other->peer >= 0) found.culprits.push_back(other->peer);
  }
  found.text = as_sentence(ranks_of(inside)) + have(inside) + " made " + call_text(job, *call) +
               ", and nobody is known to be missing, but it has not ended for " +
               time_text(job.now() - call->launched) + (call->first != 0 ? ", though data have come" : "") + ".";
  if (call->peer >= 0 && call->what == What::collective)
    found.text += " Rank " + std::to_string(first) + " waits for data of rank " + std::to_string(call->peer) + ".";
  const std::string partition = partition_text(job, waits);
  found.text += partition.empty()
                    ? " Look whether it still moves by asking again; if not, at the device or the network "
                      "that it uses (" +
                          (call->how.empty() ? std::string("unknown") : call->how) + ")."
                    : " It seems that " + partition + ": look at the network between them.";
  std::ranges::sort(found.culprits);
  const auto [last, end] = std::ranges::unique(found.culprits);
  found.culprits.erase(last, end);
  return found;
}

/// "here", or "on h1 and h2" if hosts were asked.
std::string places_of(const Job& job, const std::vector<int>& ranks) {
  std::set<std::string> names;
  for (const int rank : ranks)
    if (const AskedHost* const host = job.asked_host(rank); host != nullptr) names.insert(host->name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "on " : " and ") + name;
  return text.empty() ? "here" : text;
}

Found find_connecting(const Job& job) {
  const std::vector<int> waiting = late_to_connect(job);
  if (waiting.empty()) return std::nullopt;
  const Patient* const first = job.patient(waiting.front());
  std::vector<int> missing = job.unknown();
  for (const auto& [rank, patient] : job.patients())
    if (patient->life == Life::stopped) missing.push_back(rank);
  std::string text = as_sentence(ranks_of(waiting)) + (waiting.size() == 1 ? " is" : " are") +
                     " not connected yet: rank " + std::to_string(waiting.front()) + " " + first->recording.doing +
                     ", since " + time_text(job.now() - first->recording.staged_at) + ".";
  if (!missing.empty())
    text += " Of " + ranks_of(missing) + " nothing runs " + places_of(job, missing) + ": look whether " +
            (missing.size() == 1 ? "it was" : "they were") + " started, and what " +
            (missing.size() == 1 ? "it" : "they") + " wrote.";
  else
    text += " All ranks are there: look whether they can reach the store and one another.";
  return Finding{Kind::connecting, missing, text};
}

std::string context_of(const Job& job, Kind kind) {
  std::vector<int> unknown = job.unknown();
  std::erase_if(unknown, [&](int rank) { return job.silent_host(rank) != nullptr; });
  std::string text = kind == Kind::silent ? std::string() : silence_text(job);
  if (!unknown.empty() && kind != Kind::connecting)
    text += (text.empty() ? "" : " ") + std::string("Nothing is known of ") + ranks_of(unknown) +
            ", which run elsewhere or not at all.";
  for (const auto& [rank, patient] : job.patients())
    if (patient->recording.lost > 0)
      text += (text.empty() ? "" : " ") + as_sentence("rank " + std::to_string(rank)) +
              " had so many calls at a time that " + std::to_string(patient->recording.lost) + " were not recorded.";
  return text;
}

Finding find(const Job& job) {
  if (const Found found = find_lost(job)) return *found;
  if (const Found found = find_mismatch(job)) return *found;
  const Waits waits(job);
  if (const Found found = find_stopped(job, waits)) return *found;
  if (const Found found = find_silent(job, waits)) return *found;
  if (const Found found = find_failure(job)) return *found;
  if (const Found found = find_idle(job, waits)) return *found;
  if (const Found found = find_deadlock(job, waits)) return *found;
  if (const Found found = find_connecting(job)) return *found;
  if (const Found found = find_no_progress(job, waits)) return *found;
  return nothing_stuck(job);
}

}  // namespace

std::string_view name(Finding::Kind kind) noexcept {
  constexpr std::array<std::string_view, 13> names = {"lost", "failed",    "mismatch", "stopped",     "silent",
                                                      "late", "unmatched", "deadlock", "no_progress", "connecting",
                                                      "slow", "outside",   "healthy"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string Diagnosis::paragraph() const { return finding.text + (context.empty() ? "" : " " + context); }

Diagnosis diagnose(const std::vector<Patient>& patients, Time now, Time patience, const std::vector<AskedHost>& hosts) {
  const Job job(patients, now, patience, hosts);
  Finding found = find(job);
  const Kind kind = found.kind;
  return {std::move(found), context_of(job, kind)};
}

}  // namespace tutti::doctor
