#include "collectives/doctor/job.hpp"

#include <algorithm>

namespace tutti::doctor {

const std::vector<AskedHost>& Job::none_asked() noexcept {
  static const std::vector<AskedHost> none;
  return none;
}

Job::Job(const std::vector<Patient>& patients, Time now, Time patience, const std::vector<AskedHost>& hosts)
    : now_(now), patience_(patience), hosts_(hosts) {
  for (const AskedHost& host : hosts) {
    if (!host.ranks.empty()) size_ = std::max(size_, host.ranks.back() + 1);
    if (!host.answers) silent_hosts_.push_back(&host);
  }
  for (const Patient& one : patients) {
    const int rank = one.recording.rank;
    size_ = std::max({size_, one.recording.size, rank + 1});
    // A rank that was started again has several recordings; the one whose process lives tells more.
    const auto [known, is_new] = patients_.try_emplace(rank, &one);
    if (!is_new && known->second->life == Patient::Life::gone) known->second = &one;
  }
  for (const auto& [_, patient] : patients_) index(*patient);
}

void Job::index(const Patient& patient) {
  Calls& calls = calls_[patient.recording.rank];
  for (const RecordedCall& call : patient.recording.calls) {
    if (call.what != RecordedCall::What::collective) continue;
    calls.collectives[{call.group, call.sequence}] = &call;
    calls.latest[call.group] = call.sequence;  // the calls are in the order of their starts
  }
}

const Patient* Job::patient(int rank) const noexcept {
  const auto found = patients_.find(rank);
  return found == patients_.end() ? nullptr : found->second;
}

const AskedHost* Job::asked_host(int rank) const noexcept {
  for (const AskedHost& host : hosts_)
    if (std::ranges::binary_search(host.ranks, rank)) return &host;
  return nullptr;
}

const AskedHost* Job::silent_host(int rank) const noexcept {
  const AskedHost* const host = silent_hosts_.empty() ? nullptr : asked_host(rank);
  return host == nullptr || host->answers ? nullptr : host;
}

std::vector<int> Job::unknown() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (!patients_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<int> Job::members(std::uint64_t group) const {
  std::vector<int> ranks;
  for (const auto& [world, patient] : patients_) {
    const RecordedCommunicator* const made = patient->recording.communicator(group);
    if (made == nullptr) continue;
    ranks.resize(std::max(ranks.size(), static_cast<std::size_t>(made->size)), -1);
    if (made->stride != 0 || made->size == 1)
      for (int i = 0; i < made->size; ++i) ranks[static_cast<std::size_t>(i)] = made->first + i * made->stride;
    if (made->rank >= 0 && made->rank < made->size) ranks[static_cast<std::size_t>(made->rank)] = world;
  }
  for (int& rank : ranks)
    if (rank < 0 || rank >= size_) rank = -1;
  return ranks;
}

std::string Job::name(std::uint64_t group) const {
  for (const auto& [_, patient] : patients_)
    if (const auto* const made = patient->recording.communicator(group); made != nullptr && !made->name.empty())
      return made->name;
  return group == 1 ? "world" : "a communicator that has ended";
}

const RecordedCall* Job::call(int rank, std::uint64_t group, std::uint32_t sequence) const noexcept {
  const auto calls = calls_.find(rank);
  if (calls == calls_.end()) return nullptr;
  const auto found = calls->second.collectives.find({group, sequence});
  return found == calls->second.collectives.end() ? nullptr : found->second;
}

std::uint32_t Job::latest(int rank, std::uint64_t group) const noexcept {
  const auto calls = calls_.find(rank);
  if (calls == calls_.end()) return 0;
  const auto found = calls->second.latest.find(group);
  return found == calls->second.latest.end() ? 0 : found->second;
}

bool Job::has_made(int rank, std::uint64_t group, std::uint32_t sequence) const noexcept {
  const std::uint32_t made = latest(rank, group);
  return made != 0 && static_cast<std::int32_t>(made - sequence) >= 0;
}

const RecordedCall* Job::waits_in(int rank) const noexcept {
  const Patient* const one = patient(rank);
  if (one == nullptr || one->recording.waiters == 0) return nullptr;
  const RecordedCall* const call = one->recording.call(one->recording.waits_for);
  return call != nullptr && call->state == RecordedCall::State::running ? call : nullptr;
}

const RecordedCall* Job::last_call(int rank) const noexcept {
  const Patient* const one = patient(rank);
  if (one == nullptr) return nullptr;
  const auto& calls = one->recording.calls;
  const auto last = std::find_if(calls.rbegin(), calls.rend(), [](const RecordedCall& call) {
    return call.what == RecordedCall::What::collective || call.what == RecordedCall::What::exchange;
  });
  return last == calls.rend() ? nullptr : &*last;
}

}  // namespace tutti::doctor
