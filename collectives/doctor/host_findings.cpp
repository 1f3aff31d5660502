// Findings about hosts: those that do not answer, and those between which no data pass.
#include <algorithm>
#include <map>
#include <set>

#include "collectives/doctor/findings.hpp"
#include "collectives/doctor/held.hpp"
#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;

/// "their host does not answer, and was last heard of 4.1 s ago", or why it is lost.
std::string how_silent(const AskedHost& host) {
  const std::string which = host.ranks.size() == 1 ? "its host" : "their host";
  if (!host.why.empty()) return "the launcher has lost " + which + ": " + host.why;
  return which + " does not answer" +
         (host.silent_for > 0 ? ", and was last heard of " + time_text(host.silent_for) + " ago" : "");
}

/// "ranks 2, 3 on h2 cannot be asked: their host does not answer".
std::string silent_text(const AskedHost& host) {
  return ranks_of(host.ranks) + " on " + host.name + " cannot be asked: " + how_silent(host);
}

/// The ranks of hosts that do not answer and that somebody needs: in a call, to start or connect, or since a
/// communicator has failed with them.
std::set<int> needed_of_silent(const Job& job, const Waits& waits) {
  std::set<int> ranks;
  const auto note = [&](int rank) {
    if (rank >= 0 && job.silent_host(rank) != nullptr && job.patient(rank) == nullptr) ranks.insert(rank);
  };
  for (const Wait& one : waits.all()) note(one.for_rank);
  for (const auto& [_, call] : waits.complete())
    for (const int rank : {call->peer, call->from}) note(rank);
  for (const auto& [_, patient] : job.patients())
    if (patient->recording.failure) note(patient->recording.failure->culprit);
  if (!late_to_connect(job).empty() || job.patients().empty())
    for (const AskedHost* const host : job.silent_hosts()) std::ranges::for_each(host->ranks, note);
  return ranks;
}

}  // namespace

Found find_silent(const Job& job, const Waits& waits) {
  const std::set<int> needed = needed_of_silent(job, waits);
  if (needed.empty()) return std::nullopt;
  Finding found{Kind::silent, {needed.begin(), needed.end()}, ""};
  std::set<const AskedHost*> hosts;
  for (const int rank : needed) hosts.insert(job.silent_host(rank));
  for (const AskedHost* const host : job.silent_hosts())
    if (hosts.contains(host)) found.text += (found.text.empty() ? "" : ". ") + as_sentence(silent_text(*host));
  if (const Held held = held_by(waits, *needed.begin()); held.call != nullptr) {
    found.text += ". In " + call_text(job, *held.call) + ", " + ranks_of(held.waiters) + have(held.waiters) +
                  " waited for " + time_text(job.now() - held.since);
    for (const int rank : waits.idle())
      if (job.patient(rank) != nullptr && !job.has_made(rank, held.call->group, held.call->sequence))
        found.text += ". Rank " + std::to_string(rank) + " has not made it either: " + state_text(job, rank);
  }
  found.text += ". Look whether " +
                std::string(hosts.size() == 1 ? "that host runs and can" : "these hosts run and can") + " be reached.";
  return found;
}

std::string silence_text(const Job& job) {
  std::string text;
  for (const AskedHost* const host : job.silent_hosts())
    text += (text.empty() ? "" : " ") + as_sentence(silent_text(*host)) + ".";
  return text;
}

std::string partition_text(const Job& job, const Waits& waits) {
  using Sides = std::map<std::string, std::vector<int>>;
  std::map<std::pair<std::string, std::string>, Sides> between;  // by the host that waits, and the one it waits for
  bool all_cross = true;
  for (const auto& [rank, call] : waits.complete()) {
    const Patient* const other = job.patient(call->peer);
    const std::string& own = job.patient(rank)->recording.host;
    all_cross = all_cross && other != nullptr && other->recording.host != own;
    if (other == nullptr || other->recording.host == own) continue;
    Sides& sides = between[{own, other->recording.host}];
    sides[own].push_back(rank);
    sides[other->recording.host].push_back(call->peer);
  }
  // Hosts that wait for each other tell more than one that waits for another, which may itself wait for a third.
  Sides mutual, all;
  for (const auto& [hosts, sides] : between)
    for (const auto& [host, ranks] : sides) {
      const auto add = [&](Sides& to) { to[host].insert(to[host].end(), ranks.begin(), ranks.end()); };
      if (all_cross) add(all);
      if (between.contains({hosts.second, hosts.first})) add(mutual);
    }
  std::string text;
  for (const auto& [host, ranks] : mutual.empty() ? all : mutual)
    text += (text.empty() ? "" : " and ") + ranks_of(ranks) + " on " + host;
  return text.empty() ? text : "no data pass between " + text;
}

}  // namespace tutti::doctor
