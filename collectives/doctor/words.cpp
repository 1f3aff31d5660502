#include "collectives/doctor/words.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "transports/core/ranges.hpp"
#include "tutti/memory.hpp"

namespace tutti::doctor {
namespace {

constexpr int anyone = -2;

std::string exchange_text(const RecordedCall& call) {
  std::string text;
  if (call.peer >= 0) text = "a send to rank " + std::to_string(call.peer);
  if (call.from == -1) return text;
  text += text.empty() ? "a receive from " : " and a receive from ";
  return text + (call.from == anyone ? "any rank" : "rank " + std::to_string(call.from));
}

}  // namespace

std::string time_text(Time length) {
  const double seconds = 1e-9 * static_cast<double>(std::max<Time>(length, 0));
  char text[64];
  if (seconds < 1)
    std::snprintf(text, sizeof text, seconds < 0.01 ? "%.2f ms" : "%.0f ms", 1e3 * seconds);
  else if (seconds < 120)
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  else
    std::snprintf(text, sizeof text, "%d min %d s", static_cast<int>(seconds) / 60, static_cast<int>(seconds) % 60);
  return text;
}

std::string call_text(const Job& job, const RecordedCall& call) {
  const std::string label = call.label.empty() ? "" : call.label + ", ";
  const std::string what = describe(call.call);
  if (call.what == RecordedCall::What::exchange) {
    const auto tag = static_cast<std::int32_t>(call.sequence);
    const std::string arguments = what.substr(std::min(what.find('('), what.size()));
    return label + exchange_text(call) + (tag < 0 ? " in a shift" : " with tag " + std::to_string(tag)) + " in " +
           job.name(call.group) + " " + arguments;
  }
  std::string text = label + "call " + std::to_string(call.sequence) + " of " + job.name(call.group) + " (" + what;
  if (call.bytes > 0) text += ", " + size_text(call.bytes);
  return text + ")";
}

std::string last_text(const Job& job, int rank) {
  const RecordedCall* call = job.waits_in(rank);
  if (call == nullptr) call = job.last_call(rank);
  if (call == nullptr) return "it has made no call";
  const std::string text = call_text(job, *call);
  const Time since = call->ended != 0 ? call->ended : call->launched;
  const std::string ago = since == 0 ? " just now" : " " + time_text(job.now() - since) + " ago";
  if (call->state == RecordedCall::State::done) return "its last call was " + text + ", which ended" + ago;
  if (call->state == RecordedCall::State::failed) return "its last call was " + text + ", which failed" + ago;
  return (job.waits_in(rank) == call ? "it waits in " : "it has begun ") + text + "," + ago;
}

std::string end_text(const Job& job, int rank) {
  const RecordedCall* const last = job.last_call(rank);
  if (last == nullptr) return "it had made no call";
  return last->state == RecordedCall::State::running ? "it ended in " + call_text(job, *last)
                                                     : "it ended outside of a call; " + last_text(job, rank);
}

std::string process_text(const Job& job, int rank) {
  const Patient* const patient = job.patient(rank);
  if (patient == nullptr) return "nothing is recorded of it";
  const std::string who = "process " + std::to_string(patient->recording.pid) + " on " + patient->recording.host;
  if (patient->life == Patient::Life::gone)
    return who + (patient->recording.stage == Stage::ended ? " has ended" : " is gone");
  return patient->process.empty() ? who : who + " " + patient->process;
}

std::string state_text(const Job& job, int rank) { return process_text(job, rank) + "; " + last_text(job, rank); }

std::string ranks_of(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  const auto [last, end] = std::ranges::unique(ranks);
  ranks.erase(last, end);
  return ranks.empty() ? "no rank" : ranks_text(ranks);
}

std::string as_sentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace tutti::doctor
