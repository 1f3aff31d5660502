// Findings about jobs in which no call is stuck: a slow rank, ranks that make no calls, nothing.
#include <algorithm>
#include <map>

#include "collectives/doctor/findings.hpp"
#include "collectives/doctor/held.hpp"
#include "collectives/doctor/lateness.hpp"
#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;
using Life = Patient::Life;
using State = RecordedCall::State;
using What = RecordedCall::What;

/// Says where the ranks are if none is in a call and none has been for as long as a call may run; otherwise empty.
std::string outside_text(const Job& job) {
  const RecordedCall* last = nullptr;
  Time latest = 0;                                 // the time of `last`
  int newest = -1;                                 // its rank
  std::map<std::string, std::vector<int>> places;  // the ranks by what their processes do
  for (const auto& [rank, patient] : job.patients()) {
    if (patient->life == Life::gone || patient->recording.stage != Stage::running) continue;
    for (const RecordedCall& call : patient->recording.calls) {
      if (call.state == State::running) return {};
      if (call.what != What::collective && !is_exchange(call)) continue;
      const Time at = std::max(call.launched, call.ended);
      if (at <= latest) continue;
      last = &call;
      latest = at;
      newest = rank;
    }
    places[patient->process.empty() ? "cannot be looked at" : patient->process].push_back(rank);
  }
  if (last == nullptr || job.now() - latest < job.patience()) return {};
  constexpr std::size_t most_places = 4;
  std::string text = "The ranks are in no call that tutti knows of. The last one, of rank " + std::to_string(newest) +
                     ", was " + call_text(job, *last) + ", " + time_text(job.now() - latest) + " ago.";
  std::size_t told = 0;
  for (const auto& [process, ranks] : places) {
    if (told++ == most_places) break;
    text +=
        (ranks.size() == 1 ? " " + as_sentence(ranks_of(ranks)) : " Each of " + ranks_of(ranks)) + " " + process + ".";
  }
  if (places.size() > most_places) text += " The other ranks do other things.";
  return text + " If they stay there, they wait for one another, or for something else, outside of tutti.";
}

}  // namespace

Finding nothing_stuck(const Job& job) {
  constexpr Time worth_telling = 1'000'000;  // 1 ms
  constexpr std::size_t enough = 20;         // calls
  std::size_t calls = 0;
  for (const auto& [_, patient] : job.patients()) calls += patient->recording.calls.size();
  const std::string outside = outside_text(job);
  const std::vector<Lateness> late = latenesses(job);
  if (!late.empty() && late.front().of >= enough && late.front().last * 2 > late.front().of &&
      late.front().median >= worth_telling && job.patients().size() > 1) {
    const Lateness& worst = late.front();
    return {Kind::slow,
            {worst.rank},
            "Nothing is stuck. Rank " + std::to_string(worst.rank) + " comes last to " + std::to_string(worst.last) +
                " of its last " + std::to_string(worst.of) + " calls, by " + time_text(worst.median) +
                " in the median, and has held up the others for " + time_text(worst.total) +
                " in all. Look at what it computes between the calls; " + process_text(job, worst.rank) + "." +
                (outside.empty() ? "" : " " + outside)};
  }
  if (!outside.empty()) return {Kind::outside, {}, outside};
  return {Kind::healthy,
          {},
          calls == 0 ? "Nothing is stuck: no rank has made a call yet."
                     : "Nothing is stuck: no call has run for longer than " + time_text(job.patience()) + "."};
}

}  // namespace tutti::doctor
