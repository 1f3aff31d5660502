#include "collectives/doctor/lateness.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::doctor {
namespace {

struct Arrivals {
  std::size_t ranks = 0;
  int last = -1;
  Time latest = 0, before = 0;  // before: the latest but one

  void add(int rank, Time at) {
    ++ranks;
    if (at >= latest) {
      before = latest;
      latest = at;
      last = rank;
    } else {
      before = std::max(before, at);
    }
  }
};

std::map<std::pair<std::uint64_t, std::uint32_t>, Arrivals> arrivals_of(const Job& job) {
  std::map<std::pair<std::uint64_t, std::uint32_t>, Arrivals> calls;
  for (const auto& [rank, patient] : job.patients())
    for (const RecordedCall& call : patient->recording.calls)
      if (call.what == RecordedCall::What::collective && call.launched != 0)
        calls[{call.group, call.sequence}].add(rank, call.launched);
  return calls;
}

}  // namespace

std::vector<Lateness> latenesses(const Job& job) {
  const auto calls = arrivals_of(job);
  std::vector<Lateness> all;
  for (const auto& [rank, patient] : job.patients()) {
    Lateness one{.rank = rank};
    std::vector<Time> times;
    for (const RecordedCall& call : patient->recording.calls) {
      const auto found = calls.find({call.group, call.sequence});
      if (call.what != RecordedCall::What::collective || found == calls.end() || found->second.ranks < 2) continue;
      ++one.of;
      if (found->second.last != rank) continue;
      times.push_back(found->second.latest - found->second.before);
      one.total += times.back();
    }
    one.last = times.size();
    if (!times.empty()) {
      std::ranges::sort(times);
      one.median = times[times.size() / 2];
    }
    all.push_back(one);
  }
  std::ranges::sort(all, std::ranges::greater(), &Lateness::total);
  return all;
}

}  // namespace tutti::doctor
