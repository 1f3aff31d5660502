#include "tools/doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

#include "collectives/doctor/words.hpp"
#include "tools/doctor/json.hpp"

namespace tutti::tools {
namespace {

using doctor::Patient;
using doctor::RecordedCall;
using doctor::Time;
using State = RecordedCall::State;

constexpr std::size_t columns = 100;
constexpr std::size_t most_calls = 8;  // of each rank in JSON

std::string_view name(State state) {
  return state == State::running ? "running" : state == State::done ? "done" : "failed";
}

std::string_view name(Patient::Life life) {
  constexpr std::array<std::string_view, 4> names = {"unknown", "lives", "stopped", "gone"};
  return names.at(static_cast<std::size_t>(life));
}

std::string wrapped(std::string_view text) {
  std::string result;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool breaks = column > 0 && column + 1 + word.size() > columns;
    result += breaks ? "\n" : column > 0 ? " " : "";
    result += word;
    column = breaks ? word.size() : column + word.size() + (column > 0 ? 1 : 0);
  }
  return result;
}

std::string call_json(const RecordedCall& call, const doctor::Job& job) {
  const Time end = call.ended != 0 ? call.ended : call.launched;  // within its start: some microseconds at most
  const std::string ended = call.state == State::running ? "null" : std::to_string(end);
  return fmt::format(
      R"({{"call": {}, "communicator": {}, "number": {}, "state": "{}", "launched_ns": {}, "ended_ns": {}, "algorithm": {}}})",
      json_text(doctor::call_text(job, call)), json_text(job.name(call.group)), call.sequence, name(call.state),
      call.launched, ended, json_text(call.how));
}

std::string rank_json(const Patient& patient, const doctor::Job& job) {
  const auto& recording = patient.recording;
  std::string calls;
  const std::size_t skipped = recording.calls.size() - std::min(recording.calls.size(), most_calls);
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const RecordedCall& call = recording.calls[i];
    if (i < skipped && call.state != State::running) continue;
    calls += (calls.empty() ? "" : ", ") + call_json(call, job);
  }
  return fmt::format(
      R"({{"rank": {}, "pid": {}, "host": {}, "life": "{}", "process": {}, "failure": {}, "calls": [{}]}})",
      recording.rank, recording.pid, json_text(recording.host), name(patient.life), json_text(patient.process),
      recording.failure ? json_text(recording.failure->text) : "null", calls);
}

std::string host_json(const doctor::AskedHost& host) {
  return fmt::format(
      R"({{"host": {}, "ranks": [{}], "answers": {}, "why": {}, "clock_ahead_ns": {}, "clock_error_ns": {}}})",
      json_text(host.name), fmt::join(host.ranks, ", "), host.answers, json_text(host.why), host.ahead, host.error);
}

Time latest_of(const std::vector<Patient>& patients) {
  Time latest = 0;
  for (const Patient& patient : patients) {
    latest = std::max(latest, patient.recording.looked_at);
    for (const RecordedCall& call : patient.recording.calls) latest = std::max({latest, call.launched, call.ended});
  }
  return latest;
}

/// The events of one rank. A call that ended within its start is drawn with the length of a microsecond.
std::string rank_events(const Patient& patient, const doctor::Job& job, std::size_t process, Time start, Time end) {
  const auto& recording = patient.recording;
  std::string events =
      fmt::format(R"({{"ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": {}}}}})", process,
                  recording.rank, json_text(fmt::format("rank {} on {}", recording.rank, recording.host)));
  for (const RecordedCall& call : recording.calls) {
    if (call.launched == 0) continue;
    const Time until = call.ended != 0 ? call.ended : call.state == State::running ? end : call.launched + 1000;
    const std::string title =
        call.label.empty() ? describe(call.call).substr(0, describe(call.call).find('(')) : call.label;
    events += fmt::format(
        ",\n"
        R"({{"ph": "X", "name": {}, "cat": {}, "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{"call": {}, "state": "{}", "algorithm": {}}}}})",
        json_text(title), json_text(job.name(call.group)), process, recording.rank,
        1e-3 * static_cast<double>(call.launched - start),
        1e-3 * static_cast<double>(std::max<Time>(until - call.launched, 0)), json_text(doctor::call_text(job, call)),
        name(call.state), json_text(call.how));
  }
  return events;
}

Time earliest_of(const std::vector<Examined>& jobs) {
  Time earliest = std::numeric_limits<Time>::max();
  for (const Examined& job : jobs)
    for (const Patient& patient : job.patients)
      for (const RecordedCall& call : patient.recording.calls)
        if (call.launched != 0) earliest = std::min(earliest, call.launched);
  return earliest;
}

}  // namespace

std::string as_text(const Examined& job) {
  std::set<std::string> programs;
  int size = 1;
  for (const Patient& patient : job.patients) {
    programs.insert(patient.recording.program);
    size = std::max(size, patient.recording.size);
  }
  for (const doctor::AskedHost& host : job.hosts)
    if (!host.ranks.empty()) size = std::max(size, host.ranks.back() + 1);
  std::string all;
  for (const std::string& program : programs) all += (all.empty() ? "" : ", ") + program;
  return fmt::format("{} rank{} of {}, job {}:\n{}\n", size, size == 1 ? "" : "s",
                     all.empty() ? "an unknown program" : all, job.job, wrapped(job.diagnosis.paragraph()));
}

std::string as_json(const std::vector<Examined>& jobs) {
  std::string all;
  for (const Examined& one : jobs) {
    const doctor::Job job(one.patients, latest_of(one.patients), doctor::usual_patience);
    std::string ranks, culprits, hosts;
    for (const Patient& patient : one.patients) ranks += (ranks.empty() ? "" : ",\n  ") + rank_json(patient, job);
    for (const int rank : one.diagnosis.finding.culprits)
      culprits += (culprits.empty() ? "" : ", ") + std::to_string(rank);
    for (const doctor::AskedHost& host : one.hosts) hosts += (hosts.empty() ? "" : ",\n  ") + host_json(host);
    all += (all.empty() ? "" : ",\n") +
           fmt::format(
               "{{\"job\": {}, \"finding\": \"{}\", \"culprits\": [{}], \"text\": {},\n \"hosts\": [{}],\n "
               "\"ranks\": [{}]}}",
               json_text(one.job), doctor::name(one.diagnosis.finding.kind), culprits,
               json_text(one.diagnosis.paragraph()), hosts, ranks);
  }
  return "[" + all + "]\n";
}

std::string as_trace(const std::vector<Examined>& jobs) {
  const Time start = earliest_of(jobs);
  std::string all;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Time end = latest_of(jobs[i].patients);
    const doctor::Job job(jobs[i].patients, end, doctor::usual_patience);
    all += (all.empty() ? "" : ",\n") +
           fmt::format(R"({{"ph": "M", "name": "process_name", "pid": {}, "args": {{"name": {}}}}})", i,
                       json_text("job " + jobs[i].job));
    for (const Patient& patient : jobs[i].patients) all += ",\n" + rank_events(patient, job, i, start, end);
  }
  return "{\"traceEvents\": [\n" + all + "\n]}\n";
}

}  // namespace tutti::tools
