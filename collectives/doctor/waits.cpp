#include "collectives/doctor/waits.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tutti::doctor {
namespace {

using What = RecordedCall::What;
using State = RecordedCall::State;
constexpr int anyone = -2;

// The sends of one rank to another with a tag, or the receives: those that have ended, and those that run.
struct Exchanges {
  std::size_t done = 0, running = 0;
};

template <class Peer>
Exchanges count(const Patient* patient, const RecordedCall& like, Peer peer) {
  Exchanges found;
  if (patient == nullptr) return found;
  for (const RecordedCall& call : patient->recording.calls) {
    if (call.what != What::exchange || call.group != like.group || call.sequence != like.sequence || !peer(call))
      continue;
    if (call.state == State::done) ++found.done;
    if (call.state == State::running) ++found.running;
  }
  return found;
}

Exchanges sends(const Job& job, int from, int to, const RecordedCall& like) {
  return count(job.patient(from), like, [to](const RecordedCall& call) { return call.peer == to; });
}

Exchanges receives(const Job& job, int of, int from, const RecordedCall& like) {
  return count(job.patient(of), like,
               [from](const RecordedCall& call) { return call.from == from || call.from == anyone; });
}

}  // namespace

// Ranks enter a collective at different times. If it runs long on one of them, all that run it wait.
Waits::Waits(const Job& job) : job_(job) {
  std::set<std::pair<std::uint64_t, std::uint32_t>> long_ones;  // communicators and numbers of collectives
  const auto each_call = [&](const auto& look) {
    for (const auto& [rank, patient] : job.patients())
      if (patient->life != Patient::Life::gone)
        for (const RecordedCall& call : patient->recording.calls) look(rank, call);
  };
  each_call([&](int, const RecordedCall& call) {
    if (call.what == What::collective && job.runs_long(call)) long_ones.emplace(call.group, call.sequence);
  });
  each_call([&](int rank, const RecordedCall& call) {
    const bool waits = call.what == What::collective ? call.state == State::running && call.launched != 0 &&
                                                           long_ones.contains({call.group, call.sequence})
                                                     : job.runs_long(call);
    if (waits) look_at(rank, call);
  });
}

void Waits::look_at(int rank, const RecordedCall& call) {
  const bool waits = call.what == What::collective ? look_at_collective(rank, call)
                     : call.what == What::exchange ? look_at_exchange(rank, call)
                                                   : true;
  const bool is_first = complete_.empty() || complete_.back().first != rank;
  if (!waits && is_first) complete_.emplace_back(rank, &call);
}

// Returns true if some rank has not made the call.
bool Waits::look_at_collective(int rank, const RecordedCall& call) {
  bool waits = false;
  for (const int member : job_.members(call.group)) {
    if (member < 0 || member == rank || job_.has_made(member, call.group, call.sequence)) continue;
    all_.push_back({rank, member, &call});
    waits = true;
  }
  return waits;
}

// A rank without a recording counts as one that has done its part: nothing is known of it.
bool Waits::look_at_exchange(int rank, const RecordedCall& call) {
  bool waits = false;
  const auto note = [&](int peer) {
    all_.push_back({rank, peer, &call});
    waits = true;
  };
  if (call.from >= 0 && needs_message(rank, call.from, call)) note(call.from);
  if (call.peer >= 0 && call.peer != call.from && needs_receiver(rank, call.peer, call)) note(call.peer);
  if (call.from != anyone) return waits;
  const std::vector<int> members = job_.members(call.group);
  const bool sent = std::ranges::any_of(
      members, [&](int member) { return member >= 0 && member != rank && !needs_message(rank, member, call); });
  for (const int member : members)
    if (!sent && member >= 0 && member != rank) note(member);
  return waits;
}

// True if the sender has not sent as many messages as the receiver has received, and one more.
bool Waits::needs_message(int receiver, int sender, const RecordedCall& call) const {
  if (job_.patient(sender) == nullptr) return false;
  const Exchanges sent = sends(job_, sender, receiver, call);
  return sent.running == 0 && sent.done <= receives(job_, receiver, sender, call).done;
}

bool Waits::needs_receiver(int sender, int receiver, const RecordedCall& call) const {
  if (job_.patient(receiver) == nullptr) return false;
  const Exchanges received = receives(job_, receiver, sender, call);
  return received.running == 0 && received.done <= sends(job_, sender, receiver, call).done;
}

std::vector<Wait> Waits::of(int rank) const {
  const RecordedCall* const call = job_.waits_in(rank);
  std::vector<Wait> waits;
  if (call == nullptr) return waits;
  std::ranges::copy_if(all_, std::back_inserter(waits),
                       [&](const Wait& one) { return one.waiter == rank && one.call == call; });
  return waits;
}

std::vector<int> Waits::idle() const {
  std::set<int> ranks;
  for (const Wait& one : all_)
    if (job_.waits_in(one.for_rank) == nullptr) ranks.insert(one.for_rank);
  return {ranks.begin(), ranks.end()};
}

// Follows the waits of each rank until a rank comes up again.
std::vector<Wait> Waits::circle() const {
  for (const auto& [start, _] : job_.patients()) {
    std::vector<Wait> path;
    for (int rank = start; path.size() <= job_.patients().size();) {
      const std::vector<Wait> next = of(rank);
      const auto onward =
          std::ranges::find_if(next, [&](const Wait& one) { return job_.waits_in(one.for_rank) != nullptr; });
      if (onward == next.end()) break;
      path.push_back(*onward);
      rank = onward->for_rank;
      const auto back = std::ranges::find(path, rank, &Wait::waiter);
      if (back != path.end()) return {back, path.end()};
    }
  }
  return {};
}

}  // namespace tutti::doctor
